"""What a server states that its passes and levels cost. It may not know what a pass computes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """What a pass, each packed token of it, and a level drafted here cost at least, in seconds."""

    per_pass: float = 0.0
    per_token: float = 0.0
    per_level: float = 0.0

    def cost(self, tokens: int) -> float:
        """Seconds that a pass over `tokens` packed tokens takes."""
        return max(self.per_pass, self.per_token * tokens)
