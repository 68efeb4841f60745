"""Load tests against any OpenAI-compatible server. It imports nothing of ``dsi_ray``."""
