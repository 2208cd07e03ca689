"""What each app is asked to do, one file each. `runner.py` runs one of them with the Python of the environment in which
that app is installed, so that they may import it and nothing of this project.

Each has `NEEDS`, the package or command without which it does not run, and by name what it does with an endpoint's
address: `TEXT` reads text, `DATA` reads calls or JSON, `EDITS` changes a file. They return what the app got, and raise
what it raised.
"""
