"""Draft models: their networks and directories, which training writes, and the client and the server load.

What may live here: torch modules, their configurations, reading and writing them. It may not know trees, sessions,
the link, losses or data.
"""
