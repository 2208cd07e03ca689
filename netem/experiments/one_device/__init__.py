"""Experiments that compare draft models on one device, in rounds, where only the draft model differs.

One file for each experiment, with a `measure(request, advance) -> Report`; the other files are what they share.
"""
