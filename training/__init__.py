"""Training of the drafts and of the demo models, and the command line `outrider-train`.

What may live here: one package per recipe, and what every recipe shares: the command line and the progress bar. It
stands on `common` alone; it may not know the client, the server or any network emulation, and nothing that runs in
production imports it.
"""
