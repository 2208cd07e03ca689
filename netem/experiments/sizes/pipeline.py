"""What pipeline parallelism over hosts would give: a target's layers in stages, one host each. Pure arithmetic that
`docs/scaling.md` explains; it measures nothing.
"""

from dataclasses import dataclass

from netem.experiments.one_device.dimensions import HALF_PRECISION, LLAMA_70B

TARGET = LLAMA_70B
MEMORY_BYTES_PER_S = 4.8e12  # of an H200, as its maker states
LINK_BITS_PER_S = 25e9
LINK_S = 50e-6
DEPTH = 4
"""Drafted tokens of a pass, one below the other."""

PASS_S = TARGET.parameters * HALF_PRECISION / MEMORY_BYTES_PER_S
"""Of one device that held the whole target: the time to read its weights."""


def hop_s(rows: int) -> float:
    """From one host to the next, with the hidden states of `rows` tokens."""
    return LINK_S + rows * TARGET.hidden * HALF_PRECISION * 8 / LINK_BITS_PER_S


@dataclass(frozen=True)
class Pipeline:
    """`stages`, with a chance of `acceptance` that a drafted token below an accepted one is accepted."""

    stages: int
    acceptance: float

    @property
    def pass_s(self) -> float:
        """Through all stages and back."""
        return PASS_S + self.stages * hop_s(DEPTH + 1)

    @property
    def interval_s(self) -> float:
        """Between passes that follow one another."""
        return PASS_S / self.stages + hop_s(DEPTH + 1)

    @property
    def plain(self) -> float:
        """Tokens per second of one session without drafts."""
        return 1 / self.pass_s

    @property
    def one_in_flight(self) -> float:
        """Tokens per second of one session that waits for each pass: accepted tokens and the bonus token."""
        return sum(self.acceptance**depth for depth in range(DEPTH + 1)) / self.pass_s

    @property
    def all_in_flight(self) -> float:
        """And of one whose next pass, with deeper nodes, enters as soon as the first stage is free. Passes follow until
        one does not accept everything; those behind it are lost, and the pipeline fills anew."""
        whole = self.acceptance**DEPTH
        before = whole / (1 - whole)  # passes that accept everything, in the mean
        last = sum(depth * self.acceptance**depth * (1 - self.acceptance) for depth in range(DEPTH)) / (1 - whole)
        return (before * DEPTH + last + 1) / (self.pass_s + before * self.interval_s)

    @property
    def sessions_in_turn(self) -> float:
        """Of as many such sessions as stages, each with one pass in flight, together."""
        return self.stages * self.one_in_flight
