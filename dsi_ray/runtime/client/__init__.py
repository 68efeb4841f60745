"""What a caller's process does: it checks requests, sends them, and makes text of tokens."""
