"""Time that only tests let go on, so that what takes a stated cost takes exactly that on any machine."""


class HandSetTime:
    """In place of the module `time` where costs are stated: sleeping lets it go on, in any thread, and nothing else."""

    def __init__(self) -> None:
        self.now = 100.0
        self.wakes_late_s = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.wakes_late_s
