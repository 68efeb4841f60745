"""One forward for many sessions."""
