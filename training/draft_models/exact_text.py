"""Numbers as text that differs where the numbers do: cards show it, and a resumed run is compared by it."""

from __future__ import annotations

from decimal import Decimal


def figure(number: float) -> str:
    """The shortest text that is read as this number, such as 2 and 0.25."""
    return repr(float(number)).removesuffix(".0")


def percent(share: float) -> str:
    """Such as 30% and 12.5%."""
    return f"{(100 * Decimal(repr(float(share)))).normalize():f}%"
