"""A fuzzer for all code that reads a peer's bytes: `python -m tests.fuzz`, or `make fuzz`.

A harness takes one frame after another and returns what became of each; `runner` runs harnesses in episodes that can be
replayed. No particular fault is looked for: frames are drawn at random from what a peer may send, in and out of order.
"""
