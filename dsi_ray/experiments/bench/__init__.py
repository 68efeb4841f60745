"""Real models: algorithms and peers on the same prompts."""
