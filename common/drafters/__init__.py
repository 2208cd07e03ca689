"""Drafters: one file per kind. Used by the client, by the server's assistance and by baselines.

May know torch and `common/models`. May not know sessions, streams or time.
"""
