"""What every HTTP request passes."""
