"""The page, and the timelines that it draws."""
