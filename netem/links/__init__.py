"""Links that are worse than the one you have.

Profiles are data, each fault is one small pure file, and an emulator applies them to real traffic. Nothing in
this folder knows what travels over the link: it imports neither the client nor the server.
"""
