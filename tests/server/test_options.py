"""How durations are written."""

import pytest

from common.protocol.errors import MisuseError
from server.options import parse_duration


def test_durations_are_milliseconds_unless_they_say_otherwise() -> None:
    texts = ("30", "30ms", "0.1 ms", "1.5s", "0")
    assert [parse_duration(text) for text in texts] == pytest.approx([0.03, 0.03, 0.0001, 1.5, 0.0])


@pytest.mark.parametrize("text", ["", "ms", "-3", "3m", "1e3", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="no duration"):
        parse_duration(text)
