"""Experiments: one file each. They stand on top of everything and may use both ends; nothing may import them back.

An experiment measures and returns a `Report`. It writes no file and prints nothing.
"""
