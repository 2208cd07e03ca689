"""Experiments on answers whose link is gone: for good, and for the length of an outage."""
