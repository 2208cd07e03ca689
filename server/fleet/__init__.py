"""The fleet that a server belongs to: who its other replicas are, and the quotas that all of them count together."""
