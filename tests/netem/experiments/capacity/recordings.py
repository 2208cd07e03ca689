"""Recordings with stated acceptance, for tests. Nothing else may live here."""

from netem.experiments.capacity.acceptance import Offer, RecordedAnswer, Recording

LOGPS = (-0.1, -2.5, -4.0)


def answer(*taken: int | None, prompt_tokens: int = 4) -> RecordedAnswer:
    """An answer of which each token was the candidate at that index."""
    return RecordedAnswer(prompt_tokens, tuple(Offer(LOGPS, index) for index in taken))


def recording(*answers: RecordedAnswer) -> Recording:
    return Recording(answers, (LOGPS,))


PREDICTABLE = recording(answer(*[0] * 40))
UNPREDICTABLE = recording(answer(*[None] * 40))
