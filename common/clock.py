"""What a clock is where time is an argument. It imports nothing of weight: a client's start reads it."""

from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds since any moment, and never fewer than before."""
