"""Drafters: what proposes tokens, one file for each kind. Clients, servers that draft, and baselines use them.

They may know torch and `common/models`, not sessions, streams or time.
"""
