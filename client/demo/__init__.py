"""The whole system on one machine: what `outrider demo` and the lab's experiments have in common.

A family's models and prompts, child processes, stated costs, the systems under test, and the comparison of their
answers. May not import the server or the lab: both are started as processes.
"""
