"""Drafters: what proposes tokens. A file by the name of each kind of `common/draft_kinds.py` has its `load`; the other
files hold what several kinds share, or a part of a kind that is a file of its own. Clients, servers that draft, and
baselines use them.

They may know torch and `common/models`, not sessions, streams or time.
"""
