"""Messages one after another: an error in one does not end the conversation."""

import pytest

from client.chat.loop import converse
from client.chat.multiline import TypedMessage
from client.errors import BrokenOffError
from client.private.spans import BEGIN
from common.protocol.errors import MisuseError


class Chat:
    """A chat session that fails as the question says."""

    is_over, is_private, prompt = False, False, "> "

    def __init__(self):
        self.asked: list[str] = []

    def ask(self, question: str) -> None:
        self.asked.append(question)
        failures = {"break": BrokenOffError("gone"), "stop": KeyboardInterrupt(), "fault": ValueError("odd")}
        if question in failures:
            raise failures[question]

    def quit(self) -> None:
        self.is_over = True


class Lines:
    def __init__(self, *messages: TypedMessage):
        self._messages = iter(messages)

    def ask(self, prompt: str, *, private: bool) -> TypedMessage | None:
        return next(self._messages, None)


class Notes(list):
    def note(self, text: str, dim: bool = False) -> None:
        self.append(text)


def conversed(*messages: str, typed: bool = True) -> tuple[list[str], list[str], bool]:
    """The questions asked, the messages shown, and whether all succeeded."""
    chat, notes = Chat(), Notes()
    lines = Lines(*(TypedMessage(each) for each in messages))
    is_well = converse(chat, lines, notes, typed=typed)
    return chat.asked, list(notes), is_well


def test_questions_are_asked_and_commands_obeyed_until_the_person_leaves():
    assert conversed("a", "", "b", "/quit", "c") == (["a", "b"], [], True)
    assert conversed("a") == (["a"], [], True)


@pytest.mark.parametrize("typed", [False, True])
def test_an_answer_that_breaks_off_is_told_and_remembered(typed):
    asked, notes, is_well = conversed("break", "b", typed=typed)
    assert (asked, notes, is_well) == (["break", "b"], ["the answer broke off: gone"], False)


def test_ctrl_c_when_an_answer_has_just_ended_does_not_leave():
    assert conversed("stop", "b") == (["stop", "b"], [], True)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("/qiut", "did you mean /quit?"),
        (f"a {BEGIN} b", "not closed"),
        ("caf\udce9", "not valid text"),
        ("fault", "it failed unexpectedly: ValueError: odd"),
    ],
)
def test_mistakes_and_faults_are_told_to_who_can_type_again(message, says):
    asked, (note,), _ = conversed(message, "b")
    assert asked[-1] == "b"
    assert says in note


@pytest.mark.parametrize("message", ["/qiut", f"a {BEGIN} b", "caf\udce9"])
def test_a_mistake_in_a_pipe_ends_it_before_anything_else_is_asked(message):
    with pytest.raises(MisuseError):
        conversed("a", message, "b", typed=False)
