"""Experiments on speed: systems over links and under load, on the virtual clock, and compared with real time."""
