"""Bytes between processes: lanes, connections that two actors open between them."""
