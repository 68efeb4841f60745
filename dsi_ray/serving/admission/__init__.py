"""Which requests run, which wait, and which are turned away."""
