"""What stops a load test."""


class LoadTestError(Exception):
    """Something that the user can mend; the message says what."""
