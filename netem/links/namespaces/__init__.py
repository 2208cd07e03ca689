"""Real TCP over an emulated link: two network namespaces with something between them that spoils their packets.

Linux and root only. The namespaces have no name, so the kernel removes them when the last process and socket in them
are gone, however those went.
"""
