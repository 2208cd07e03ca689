"""The ground both ends stand on. It imports nothing of ours outside `common`."""
