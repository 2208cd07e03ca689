"""Training of draft models and of the demo target, and the command line `outrider-train`.

What may live here: a package for draft models, one for the demo, and what both share: the command line and the progress
bar. It imports `common` alone and no client, server or network emulation; nothing that runs in production imports it.
"""
