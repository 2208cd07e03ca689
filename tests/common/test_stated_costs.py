from dataclasses import astuple

import pytest

from common.stated_costs import STATED
from server.options import parse_duration


def test_what_is_stated_is_what_is_charged_and_told():
    assert STATED.server_arguments[::2] == ("--pace-pass", "--pace-token", "--pace-draft")
    charged = [1000 * parse_duration(value) for value in STATED.server_arguments[1::2]]
    assert charged == pytest.approx([STATED.pass_ms, STATED.token_ms, STATED.server_level_ms], rel=1e-5)
    assert all(f"{cost:g} ms" in STATED.in_words for cost in astuple(STATED))


def test_all_costs_are_as_many_times_as_high():
    slower = STATED.times(4)
    assert astuple(slower) == pytest.approx([4 * cost for cost in astuple(STATED)])
    assert slower.server_level_ms == pytest.approx(4 * STATED.server_level_ms)
