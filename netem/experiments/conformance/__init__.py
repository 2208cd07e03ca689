"""Whether constrained answers are what their schemas say, whatever drafts them, and what the constraint costs."""
