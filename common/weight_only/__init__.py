"""Quantised weights of what a client runs: int8 and int4, their files, and layers that compute on them.

Norms, biases and K/V keep their dtype. Knows tensors and files, may not know drafts, bundles or servers.
"""
