"""Keys and values: blocks, their cache, their memory."""
