"""Experiments, one file each. They may use client, server and training; no other package may import them.

An experiment measures and returns a `Report`. It writes no file and prints nothing.
"""
