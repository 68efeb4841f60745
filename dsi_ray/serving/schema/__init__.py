"""What comes in over HTTP and what goes out, as far as it is supported."""
