"""Files that a client keeps: bundles of drafts, and descriptions of servers. May not know sessions."""
