from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.ends import Detokenise, cut
from common.protocol.messages import FinishReason
from tests.common.protocol.fakes import detokenise


@dataclass(frozen=True)
class TargetsEnds:
    end_tokens: frozenset[int]
    detokenise: Detokenise


def ended(answer, fresh, stop=(), room=99):
    return cut(answer, 0, fresh, stop=stop, room=room, ends=TargetsEnds(frozenset({0}), detokenise))


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


def lossy(tokens):
    """Like byte tokenizers: each token is a byte, and invalid bytes are replaced one by one."""
    return bytes(tokens).decode(errors="replace")


def all_or_nothing(tokens):
    """Like decoders that fall back to bytes: bytes that are not valid text are dropped."""
    try:
        return bytes(tokens).decode()
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}" * len(tokens)


@pytest.mark.parametrize("decode", [lossy, all_or_nothing])
@pytest.mark.parametrize(
    "stop", ["\N{FOX FACE}" * 4, "\u7d42\u308f\u308a\u3067\u3059\u3002", "\u0938\u092e\u093e\u092a\u094d\u0924"]
)
@pytest.mark.parametrize(
    "before", ["", "a", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c" * 3, "\N{FOX FACE}\u00e9" * 9]
)
def test_a_stop_string_of_many_bytes_is_found_with_its_last_one(decode, stop, before):
    """Four foxes, Japanese and Hindi, where each byte is a token."""
    answer, fresh = [*before.encode()], [*stop.encode(), *b"more"]
    ends = []
    for index in range(len(fresh)):
        kept, reason = cut(
            [*answer, *fresh[:index]],
            0,
            fresh[index : index + 1],
            stop=(stop,),
            room=99,
            ends=TargetsEnds(frozenset(), decode),
        )
        assert kept == 1
        ends.append(reason)
    assert ends.index(FinishReason.END) == len(stop.encode()) - 1


def test_a_stop_string_is_found_behind_a_byte_that_is_no_text():
    foxes = ("\N{FOX FACE}" * 4).encode()
    answer = [*b"a", 0x80, *foxes[:-1]]
    how = {"stop": (foxes.decode(),), "room": 99, "ends": TargetsEnds(frozenset(), all_or_nothing)}
    assert cut(answer, 0, foxes[-1:], **how) == (1, FinishReason.END)


def stripping(tokens):
    """Like decoders that strip a blank at the start of what they are given."""
    return lossy(tokens).removeprefix(" ")


@pytest.mark.parametrize(
    ("prompt", "answer", "stop", "is_found"),
    [
        (b" the quick", b" fox", " fox", True),
        (b" the quick", b" fox", "k fox", False),
        (b"", b" fox", " fox", False),
        (b"", b" fox", "fox", True),
        ("the \N{FOX FACE}".encode(), b" fox", " fox", True),
        ("the \N{FOX FACE}".encode()[:-1], b" fox", " fox", True),
        ("the \N{FOX FACE}".encode()[:-1], "\N{FOX FACE}".encode()[-1:] + b" fox", " fox", True),
    ],
)
def test_an_answer_that_begins_with_a_blank_has_it_behind_its_prompt(prompt, answer, stop, is_found):
    how = {"stop": (stop,), "room": 99, "ends": TargetsEnds(frozenset(), stripping)}
    reason = FinishReason.END if is_found else None
    assert cut(prompt, len(prompt), [*answer], **how) == (len(answer), reason)
    assert cut(prompt + answer[:-1], len(prompt), [*answer[-1:]], **how) == (1, reason)


STOPS = ("a", "ab", " a", "ba ", "b" * 4, "\N{FOX FACE}", "a\N{FOX FACE}", "\N{REPLACEMENT CHARACTER}")
BYTES = st.lists(st.sampled_from([*b" ab", *"\N{FOX FACE}".encode()]), max_size=30)


@given(
    decode=st.sampled_from([lossy, all_or_nothing, stripping]),
    prompt=BYTES,
    answer=BYTES,
    fresh=BYTES,
    stop=st.lists(
        st.sampled_from(["a", "ab", " a", "ba ", "b" * 4, "\N{FOX FACE}", "a\N{FOX FACE}", "\ufffd"]), max_size=3
    ),
)
def test_many_tokens_at_once_end_where_they_do_one_by_one(decode, prompt, answer, fresh, stop):
    ends = TargetsEnds(frozenset(), decode)
    expected = len(fresh), None
    for index in range(len(fresh)):
        sequence = [*prompt, *answer, *fresh[:index]]
        _, reason = cut(sequence, len(prompt), fresh[index : index + 1], stop, 99, ends)
        if reason is not None:
            expected = index + 1, reason
            break
    assert cut([*prompt, *answer], len(prompt), fresh, stop, 99, ends) == expected


class CountingSlices(list[int]):
    """How many elements were copied out of it by slices."""

    copied = 0

    def __getitem__(self, index):
        found = super().__getitem__(index)
        if isinstance(index, slice):
            self.copied += len(found)
        return found


def test_the_time_for_a_whole_answer_that_comes_again_grows_with_its_length_alone():
    """Its text has a broken character somewhere, so that no single look is enough."""
    answer = CountingSlices(b"\xff" + b"and more " * 200)
    ends = TargetsEnds(frozenset(), lossy)
    assert cut([], 0, answer, ("never",), 9_999, ends) == (len(answer), None)
    assert answer.copied < 20 * len(answer)


def test_text_without_any_end_is_detokenised_once():
    asked = []

    def counting(tokens):
        asked.append(len(tokens))
        return lossy(tokens)

    how = {"stop": ("never",), "room": 999, "ends": TargetsEnds(frozenset(), counting)}
    assert cut([*b"some text "] * 20, 0, [*b"and more " * 20], **how) == (180, None)
    assert len(asked) == 1
