"""The daemon: one target on a GPU or CPU that verifies draft tokens of many sessions at once.

What may live here: passes over all sessions, their slots, the stream endpoint and the commands of `outriderd`. It
may not know the client, how tokens are drafted there, or how links are emulated.
"""
