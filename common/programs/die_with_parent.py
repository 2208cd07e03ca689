"""`python -m common.programs.die_with_parent PROGRAM ...` runs an installed command that ends when its parent does.

The parent holds the other end of standard input and never writes, so end of file means that the parent is gone,
however it went. Works on every system and asks nothing of the command. Imports nothing of ours.
"""

import os
import runpy
import sys
import threading


def _end_with_the_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)  # nobody is left to read a message, and nothing is kept on disk


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
