"""What is measured, and the plans that follow from it."""
