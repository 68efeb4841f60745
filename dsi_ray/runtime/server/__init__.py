"""A model server's process: the forward loop and what it needs."""
