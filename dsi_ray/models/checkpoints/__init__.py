"""What checkpoints say, and whether they fit."""
