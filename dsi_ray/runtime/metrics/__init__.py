"""What a group counts, and how it reaches Ray's Prometheus."""
