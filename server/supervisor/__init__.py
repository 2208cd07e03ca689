"""`outriderd fleet`: starts the replicas of a fleet, restarts, replaces and drains them, and says how they are."""
