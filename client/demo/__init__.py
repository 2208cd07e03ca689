"""The parts of `outrider demo`: its child processes, its prompts, the systems that it compares.

May not import the server or the lab: both are started as processes.
"""
