"""Files that a client keeps: bundles of drafts, and what servers said of themselves. May not know sessions."""
