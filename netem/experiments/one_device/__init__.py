"""Experiments on drafts: what each is worth, on one device and in rounds, where nothing but the draft differs.

One experiment one file, each with a `measure(request, advance) -> Report`; what they share has a file with its name.
"""
