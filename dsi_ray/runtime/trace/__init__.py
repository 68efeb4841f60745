"""What each server did for a request, and when: recorded by the coordinator, kept for a while."""
