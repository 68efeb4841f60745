"""Messages as actor calls and streams, over Ray's ports alone."""
