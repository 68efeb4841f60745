"""Messages on connections that two processes open between them."""
