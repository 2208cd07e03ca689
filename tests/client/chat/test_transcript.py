"""Conversations as text: nothing is lost in a round trip, and nothing private becomes public."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.chat.transcript import (
    Exchange,
    SavedChat,
    answered,
    as_json,
    as_markdown,
    from_json,
    from_markdown,
    messages,
)
from client.private.spans import BEGIN, END, before_private, has_marks
from common.protocol.errors import MisuseError

FORMS = [(as_json, from_json), (as_markdown, from_markdown)]
SECRET = f"I am {BEGIN}Bo{END}."

plain = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: not has_marks(text)) | st.sampled_from(
    ["## Question", "\n\n## Answer (private)\n\n", "\\## Question", "\\\\## Answer x", "\n", "a\r\nb\r", "[[private]"]
)


@st.composite
def transcripts(draw):
    private = False
    exchanges = []
    for _ in range(draw(st.integers(0, 4))):
        question = draw(plain) + (SECRET if draw(st.booleans()) else "")
        private = private or SECRET in question
        exchanges.append(Exchange(question, draw(plain), private, confirmed=draw(st.booleans())))
    if exchanges and draw(st.booleans()):
        exchanges[-1] = Exchange(exchanges[-1].question, private=private)
    return tuple(exchanges)


@pytest.mark.parametrize(("write", "read"), FORMS)
@given(saved=st.builds(SavedChat, transcripts(), plain), model=st.text())
def test_what_was_saved_is_loaded(write, read, saved, model):
    assert read(write(saved, model)) == saved


@pytest.mark.parametrize(("write", "read"), FORMS)
def test_a_file_that_tells_no_system_prompt_is_loaded(write, read):
    saved = SavedChat((Exchange("hello\n\n## System prompt\n\nBe brief.", "hi"),))
    text = write(saved, "demo")
    assert text.count("ystem") == 1  # the question's
    assert read(text) == saved


@pytest.mark.parametrize(("write", "read"), FORMS)
def test_a_system_prompt_is_never_private(write, read):
    with pytest.raises(MisuseError, match="cannot hold private text"):
        read(write(SavedChat((), SECRET), "demo"))


@pytest.mark.parametrize(("write", "read"), FORMS)
def test_what_is_private_is_marked_so_and_all_behind_it(write, read):
    said = (Exchange("hello", "hi"), Exchange(SECRET, "ah"), Exchange("and?", "oh"))
    assert [each.private for each in read(write(SavedChat(said), "demo")).exchanges] == [False, True, True]


@pytest.mark.parametrize(("write", "read"), FORMS)
@pytest.mark.parametrize("first", [1, 2])
def test_private_text_without_a_span_gets_one(write, read, first):
    """A conversation that is private because of text that is no longer part of it."""
    said = tuple(Exchange(f"question {at}", f"answer {at}", private=at >= first) for at in range(3))
    loaded = read(write(SavedChat(said), "demo")).exchanges
    assert [before_private(each.question) for each in loaded] == ["" if at == first else None for at in range(3)]


def test_an_answer_alone_that_is_private_makes_its_question_so():
    text = as_json(SavedChat((Exchange("hello", "hi"), Exchange("more", "so"))), "demo")
    said = json.loads(text)
    said["messages"][3]["private"] = True
    assert [each.private for each in from_json(json.dumps(said)).exchanges] == [False, True]


def test_what_is_read_has_every_answer_and_its_first_private_question_in_a_span():
    said = (Exchange("a", "b"), Exchange("lost"), Exchange("c", "d", private=True))
    assert messages(said, "e") == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": f"{BEGIN}c{END}"},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"},
    ]
    assert len(answered(said)) == 2


def test_markdown_is_for_people():
    said = (Exchange("What?", "That.\n\n- a"), Exchange(SECRET, "Ah.", private=True, confirmed=False))
    assert as_markdown(SavedChat(said, "Be brief."), "a\nmodel") == (
        "# A conversation with a model\n\n## System prompt\n\nBe brief.\n\n"
        "## Question\n\nWhat?\n\n## Answer\n\nThat.\n\n- a\n\n"
        f"## Question (private)\n\n{SECRET}\n\n## Answer (private, unconfirmed)\n\nAh.\n"
    )


def of(*messages_: dict) -> str:
    return json.dumps({"messages": messages_})


USER, ASSISTANT = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no conversation"),
        ("[]", "no conversation"),
        ("{}", "no conversation"),
        ('{"messages": 7}', "no conversation"),
        ('{"messages": ["a"]}', "no conversation"),
        ('{"messages": [], "system": 7}', "the system prompt is not valid text"),
        ('{"messages": [], "system": "\\ud800"}', "the system prompt is not valid text"),
        ("[" * 100_000, "no conversation"),
        (of({"role": "user"}), "no conversation"),
        (of({"role": "user", "content": 7}), "message 1 is not valid text"),
        (of({"role": "user", "content": "\ud800"}), "message 1 is not valid text"),
        (of(ASSISTANT), "message 1 is out of turn"),
        (of(USER, USER), "message 2 is out of turn"),
        (of(USER, ASSISTANT, ASSISTANT), "message 3 is out of turn"),
        (of({"role": "system", "content": "a"}, USER), "message 1 is out of turn"),
        (of({"role": "user", "content": f"a {BEGIN} b"}), "not closed"),
    ],
)
def test_what_is_no_conversation_is_misuse(text, says):
    with pytest.raises(MisuseError, match=says):
        from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A page of notes.\n",
        "# A page of notes\n\n## Question\n\nwhy?\n",
        "# A conversation with m\n\nnotes of my own\n\n## Question\n\nwhy?\n",
    ],
)
def test_a_page_that_save_did_not_write_is_misuse(text):
    with pytest.raises(MisuseError, match="no conversation"):
        from_markdown(text)
