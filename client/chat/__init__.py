"""A conversation that a person leads line by line: `outrider chat`.

One file for each reason: what was said, what was wished, how lines are read, what commands there are, how answers look.
"""
