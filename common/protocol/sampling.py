"""The settings by which logits become the distribution that a token is sampled from, and their limits."""

from dataclasses import dataclass

# Beyond these, processed logits leave the range of float32.
TEMPERATURES = (0.01, 100.0)
"""The least and the most, apart from 0."""
REPETITION_PENALTIES = (0.01, 100.0)
"""The least and the most."""
_ADDED = (-100.0, 100.0)

MAX_BIASED_TOKENS = 1024
"""Which bounds what a session holds for them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Logits processors, applied in this order: bias, penalties, a constraint of the answer, then temperature, top-k,
    top-p and min-p. What transformers has is transformers' own; bias, presence and frequency penalty are OpenAI's.

    At temperature 0 the likeliest token has all the probability, and every rule is greedy.
    """

    temperature: float = 0.0
    top_k: int = 0  # likeliest tokens kept; 0 keeps all
    top_p: float = 1.0  # least probability of those kept, together
    min_p: float = 0.0  # least probability of one kept, as a share of the likeliest one's
    repetition_penalty: float = 1.0  # divides positive logits of tokens in the sequence, multiplies negative ones
    seed: int = 0  # of all noise, 64 bits
    presence_penalty: float = 0.0  # subtracted from logits of tokens in the answer
    frequency_penalty: float = 0.0  # the same for each time that they occur in it
    logit_bias: tuple[tuple[int, float], ...] = ()  # added to the logits of tokens, ascending

    @property
    def looks_back(self) -> bool:
        """Whether processing depends on the tokens before a row."""
        return self.repetition_penalty != 1.0 or bool(self.presence_penalty or self.frequency_penalty)


LIKELIEST = Sampling()
"""What greedy decoding needs."""


def fault(sampling: Sampling) -> str:
    """What is wrong with the settings, as one sentence; empty where nothing is."""
    least, most = TEMPERATURES
    if sampling.temperature != 0 and not least <= sampling.temperature <= most:
        return f"temperature must be 0 or lie in [{least:g}, {most:g}], not {sampling.temperature:g}"
    if not 0 <= sampling.top_k < 1 << 31:
        return f"top-k must be a number of tokens, or 0 to keep all, not {sampling.top_k}"
    if not 0 < sampling.top_p <= 1:
        return f"top-p must lie in (0, 1], not {sampling.top_p:g}"
    if not 0 <= sampling.min_p <= 1:
        return f"min-p must lie in [0, 1], not {sampling.min_p:g}"
    least, most = REPETITION_PENALTIES
    if not least <= sampling.repetition_penalty <= most:
        return f"repetition-penalty must lie in [{least:g}, {most:g}], 1 for none, not {sampling.repetition_penalty:g}"
    least, most = _ADDED
    for name, value in (
        ("presence-penalty", sampling.presence_penalty),
        ("frequency-penalty", sampling.frequency_penalty),
        *(("logit-bias", bias) for _, bias in sampling.logit_bias),
    ):
        if not least <= value <= most:
            return f"{name} must lie in [{least:g}, {most:g}], 0 for none, not {value:g}"
    biased = [token for token, _ in sampling.logit_bias]
    if len(biased) > MAX_BIASED_TOKENS or sorted(set(biased)) != biased or min(biased, default=0) < 0:
        return f"logit-bias names tokens in ascending order, each once, at most {MAX_BIASED_TOKENS}"
    if not 0 <= sampling.seed < 1 << 64:
        return f"seed must be a whole number of 64 bits, not {sampling.seed}"
    return ""


def rule_fault(rule: str, sampling: Sampling) -> str:
    """As `fault`, also for settings that contradict the rule."""
    if rule == "greedy" and sampling.temperature > 0:
        return (
            f"the rule greedy samples nothing, but the temperature is {sampling.temperature:g}; "
            "choose coupled, speculative or typical, or temperature 0"
        )
    return fault(sampling)
