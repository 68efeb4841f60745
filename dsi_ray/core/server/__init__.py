"""A server's side: the tasks of each request, and which of them a forward computes."""
