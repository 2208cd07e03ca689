"""Emulated network links.

Profiles are data, each fault is one small pure file, and a backend applies them to real traffic. Nothing in this
folder knows what the link carries: it imports neither the client nor the server.
"""
