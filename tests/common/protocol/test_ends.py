import pytest

from common.protocol.ends import cut
from common.protocol.messages import FinishReason
from tests.common.protocol.fakes import detokenise


def ended(answer, fresh, stop=(), room=99):
    return cut(answer, fresh, end_tokens=frozenset({0}), stop=stop, room=room, detokenise=detokenise)


@pytest.mark.parametrize(
    ("answer", "fresh", "stop", "room", "expected"),
    [
        ([1], [2, 3], (), 99, (2, None)),
        ([1], [2, 0, 3], (), 99, (2, FinishReason.END)),
        ([1], [2, 3, 4], (), 2, (2, FinishReason.LENGTH)),
        ([1], [2, 3], (), 2, (2, FinishReason.LENGTH)),
        ([1], [2, 0], (), 2, (2, FinishReason.END)),
        ([], [1, 2, 3], ("ab",), 99, (2, FinishReason.END)),
        ([1], [2, 3], ("ab",), 99, (1, FinishReason.END)),
        ([2, 1], [1, 3], ("ab", "aac"), 99, (2, FinishReason.END)),
        ([1], [3, 2], ("ab",), 99, (2, None)),
    ],
)
def test_an_answer_ends_at_the_first_end(answer, fresh, stop, room, expected):
    assert ended(answer, fresh, stop, room) == expected


def test_a_stop_string_is_found_behind_a_long_answer():
    assert ended([3] * 500 + [1], [2], ("ab",)) == (1, FinishReason.END)
