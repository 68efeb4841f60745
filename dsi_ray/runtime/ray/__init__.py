"""Ray itself: clusters, errors, calls."""
