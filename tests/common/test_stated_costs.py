import pytest

from common.stated_costs import IN_WORDS, SERVER_ARGUMENTS, SERVER_LEVEL_MS, STATED
from server.options import parse_duration


def test_what_is_stated_is_what_is_charged_and_told():
    assert SERVER_ARGUMENTS[::2] == ("--pace-pass", "--pace-token", "--pace-draft")
    charged = [1000 * parse_duration(value) for value in SERVER_ARGUMENTS[1::2]]
    assert charged == pytest.approx([STATED["pass_ms"], STATED["token_ms"], SERVER_LEVEL_MS], rel=1e-5)
    assert all(f"{cost:g} ms" in IN_WORDS for cost in STATED.values())
