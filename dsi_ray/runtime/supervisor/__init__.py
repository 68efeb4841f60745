"""Builds groups, and builds them again."""
