"""The event loop of a group: in-flight requests, servers and their health."""
