"""Real TCP over an emulated link: two network namespaces, and a wire between them that delays and drops packets.

Linux and root only. The namespaces have no name, so the kernel removes them when the last process and socket in them
are gone, however those ended.
"""
