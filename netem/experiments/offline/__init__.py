"""What is left of an answer when the link drops: alone for good, and until the link returns."""
