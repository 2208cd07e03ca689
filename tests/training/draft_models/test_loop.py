"""The learning rate rises, peaks once and falls to its final share, whatever the length of the run."""

from __future__ import annotations

import pytest

from training.draft_models.loop import FINAL_SHARE, LONGEST_WARM_UP, rate_share


@pytest.mark.parametrize("steps", [1, 2, 40, 1000, 100_000])
def test_the_rate_rises_and_then_falls(steps: int) -> None:
    shares = [rate_share(step, steps) for step in range(steps)]
    peak = shares.index(1.0)
    assert peak < max(1, min(LONGEST_WARM_UP, 0.05 * steps))
    assert shares[:peak] == sorted(shares[:peak])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)
    assert min(shares) > 0


def test_the_rate_ends_near_its_final_share() -> None:
    assert rate_share(9_999, 10_000) == pytest.approx(FINAL_SHARE, abs=1e-3)
    assert rate_share(10_000 - 1, 10_000) < rate_share(5_000, 10_000) < 1
