"""The messages about answers, on stderr."""

import io
from dataclasses import replace

import pytest

from client.answer import OFFLINE, Answer
from client.answering import AnswerOptions
from client.chat.display import Display
from client.drafting.policies import STREAM
from common.programs.console import PlainConsole
from common.protocol.sampling import Sampling
from tests.client.test_stats import ONE

GREEDY = AnswerOptions(STREAM, 8)
LOSSY = AnswerOptions(STREAM, 8, "typical", sampling=Sampling(temperature=1.0))


@pytest.fixture
def notes() -> PlainConsole:
    return PlainConsole(file=io.StringIO(), width=200)


def remarks(notes: PlainConsole, answer: Answer, options=GREEDY, held=False, terminal=True) -> list[str]:
    Display(PlainConsole(file=io.StringIO(), force_terminal=terminal), notes).remark(answer, options, held=held)
    return notes.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("answer", "how", "says"),
    [
        (Answer((1,), "stop", ONE), {}, ["tokens/s"]),
        (Answer((1,), "stop", ONE), {"terminal": False}, []),
        (Answer((1,), "stop", ONE), {"options": LOSSY}, ["tokens/s", "lossy"]),
        (Answer((1,), "cancelled", ONE), {}, ["stopped; what has come", "tokens/s"]),
        (Answer((), "cancelled", ONE), {}, ["stopped"]),
        (Answer((1,), "cancelled", ONE), {"terminal": False}, []),
        (
            Answer((), OFFLINE, ONE, (1, 2)),
            {},
            [
                "the last 2 tokens are the draft model's own and never confirmed: the server was out of reach; "
                "once it is back, /online asks it again"
            ],
        ),
        (
            Answer((1,), OFFLINE, ONE),
            {"terminal": False},
            ["the answer is not whole: the server was out of reach; once it is back, /online asks it again"],
        ),
        (
            Answer((), OFFLINE, ONE),
            {},
            ["the answer is not whole: the server was out of reach; once it is back, /retry asks it again"],
        ),
        (Answer((), OFFLINE, ONE, (1, 2)), {"held": True}, ["/online has the server verify"]),
        (
            Answer((), OFFLINE, ONE),
            {"held": True},
            ["the draft model wrote nothing; after /online, /retry asks it again"],
        ),
        (Answer((), "length", ONE, (1, 2), private=True), {"options": LOSSY}, ["the prompt is private"]),
        (
            Answer((1,), "stop", replace(ONE, unverified_tokens=1), note="odd"),
            {"terminal": False},
            ["kept as the draft model wrote", "odd"],
        ),
    ],
)
def test_a_person_is_told_what_they_must_know(notes, answer, how, says):
    lines = remarks(notes, answer, **how)
    assert len(lines) == len(says)
    assert all(part in line for part, line in zip(says, lines, strict=True))


def test_rows_stand_below_each_other_and_nothing_commands_the_terminal(notes):
    display = Display(PlainConsole(file=io.StringIO()), notes)
    display.table([("a", "[bold]x[/]", "one"), ("long", "y", "")])
    display.note("red \x1b[31m[b]")
    assert notes.file.getvalue() == "  a     [bold]x[/]  one\n  long  y\nred [31m[b]\n"
