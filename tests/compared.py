"""Values that count with how many others they are compared, for tests of how work grows. Nothing else may live here."""


class Comparisons:
    """Makes values that count here how often they are compared."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, value: object) -> object:
        """A value that is equal to `value`, of a type derived from its own."""
        base, comparisons = type(value), self

        class Compared(base):
            __hash__ = base.__hash__

            def __eq__(self, other: object) -> bool:
                comparisons.count += 1
                return base.__eq__(self, other)

        return Compared(value)
