"""One import of transformers at a time, where a program has begun without it. Nothing else may live here."""

from threading import RLock

IMPORTING = RLock()
"""Held by a thread of a client while it imports transformers, or what imports it.

Packages of transformers put another object into their own place among the modules at the end of their import. A thread
that waits for another's import gets what was there before, which lacks their names. Drafters of several answers may
need it for the first time at once, each in a thread of its own.
"""
