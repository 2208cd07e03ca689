"""The options that several commands of `outrider` share, by subject, and what those of a subject mean together.

Nothing heavier than typer is imported at once, so that --help is quick.
"""
