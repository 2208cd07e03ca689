"""Numbers as text: short where they are round, and different where they differ."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.draft_models.exact_text import figure, percent

SHARES = st.floats(0, 1)


@pytest.mark.parametrize(("number", "shown"), [(2, "2"), (0.25, "0.25"), (1e-7, "1e-07"), (30.0, "30")])
def test_figures_are_short(number: float, shown: str) -> None:
    assert figure(number) == shown


@pytest.mark.parametrize(("share", "shown"), [(0, "0%"), (0.3, "30%"), (0.125, "12.5%"), (0.07, "7%"), (1.0, "100%")])
def test_shares_are_shown_in_percent(share: float, shown: str) -> None:
    assert percent(share) == shown


@given(SHARES)
def test_the_next_number_has_another_text(share: float) -> None:
    later = math.nextafter(share, 2)
    assert figure(share) != figure(later)
    assert percent(share) != percent(later)
    assert float(figure(share)) == share
