"""The draft networks and their directories: what training writes, the server exports with, and the client runs.

What may live here: torch modules, their configurations, reading and writing them. It may not know trees, sessions,
the link, losses or data.
"""
