"""A fuzzer for everything that a peer's bytes reach: `python -m tests.fuzz`, or `make fuzz`.

An arena takes one frame after another and says what became of each; `runner` plays arenas in episodes that can be
replayed. No particular fault is known here: frames are made by chance of what a peer may say, in and out of order.
"""
