"""The OpenAI API: requests in, answers and event streams out."""
