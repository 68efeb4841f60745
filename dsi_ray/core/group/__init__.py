"""All requests of one group, and who may use which server."""
