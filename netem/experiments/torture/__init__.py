"""Experiments on robustness: answers under random faults of their links and servers, compared with references."""
