"""Whether a machine or a cluster can serve a configuration, and what to do if not."""
