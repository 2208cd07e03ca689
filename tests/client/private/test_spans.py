"""What of a prompt is private: where spans begin and end, and what the tokens before them depend on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.private.spans import BEGIN, END, as_private, before_private, has_marks, is_in_private, without_marks
from client.text import chat_prompt, chat_tokens, raw_prompt, raw_tokens
from common.protocol.errors import MisuseError
from tests.families import make_tokenizer
from tests.published import PUBLISHED, llama2

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(lambda text: "[[" not in text)
TOKENIZER = make_tokenizer()


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("", None),
        ("no [[span]] here", None),
        (f"a {BEGIN}b{END}", "a "),
        (f"{BEGIN}{END}", ""),
        (f"a{BEGIN}b{END}c{BEGIN}d{END}e", "a"),
    ],
)
def test_what_precedes_the_first_span(text, before):
    assert before_private(text) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"a {BEGIN} b", "not closed; end it with"),
        (f"a {END} b", "not begun; begin it with"),
        (f"{BEGIN}a{END}{END}", "not begun"),
        (f"{BEGIN}a{BEGIN}b{END}{END}", "inside another; end the first"),
        (f"{BEGIN}a{END} {BEGIN}", "not closed"),
        ("[[Private]]a[[/Private]]", r"'\[\[Private\]\]' is no mark of a private span; write"),
        ("[[private ]]a[[ /private]]", "is no mark"),
        ("[[private]]a[[private/]]", "is no mark"),
    ],
)
def test_spans_that_cannot_be_are_one_sentence(text, says):
    with pytest.raises(MisuseError, match=says) as refused:
        before_private(text)
    assert "\n" not in str(refused.value)
    with pytest.raises(MisuseError):
        raw_prompt(TOKENIZER, text)
    with pytest.raises(MisuseError):
        chat_prompt(TOKENIZER, [{"role": "user", "content": text}])


@pytest.mark.parametrize("text", ["[[" + " " * 1_000_000, "[[private" + " " * 1_000_000])
def test_blanks_that_go_on_and_on_are_looked_at_once(text):
    assert not has_marks(text)  # a search that is not linear would take hours


def test_a_text_is_private_as_a_whole_unless_it_holds_marks():
    assert without_marks(as_private("a [b] c")) == "a [b] c"
    for text in (f"a{BEGIN}", f"{END}a", f"{BEGIN}a{END}"):
        with pytest.raises(MisuseError, match="take the marks out"):
            as_private(text)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_without_spans_tokens_are_what_they_were():
    messages = [user("the quick [[brown]] fox"), {"role": "assistant", "content": f"say {BEGIN}"}, user("why?")]
    assert chat_prompt(TOKENIZER, messages).tokens == tuple(chat_tokens(TOKENIZER, messages))
    assert chat_prompt(TOKENIZER, messages).private is None
    assert raw_prompt(TOKENIZER, "the fox").safe == tuple(raw_tokens(TOKENIZER, "the fox"))
    assert raw_prompt(TOKENIZER, "the fox").private is None


@given(safe=TEXT, one=TEXT, other=TEXT, behind=TEXT)
def test_the_safe_tokens_depend_on_no_private_character(safe, one, other, behind):
    first, second = f"{safe}{BEGIN}{one}{END}", f"{safe}{BEGIN}{other}{END}{behind}"
    assert raw_prompt(TOKENIZER, first).safe == raw_prompt(TOKENIZER, second).safe == tuple(raw_tokens(TOKENIZER, safe))
    turns = [user(second), {"role": "assistant", "content": other}, user(behind)]
    chatted = {chat_prompt(TOKENIZER, messages).safe for messages in ([user(first)], [user(second)], turns)}
    assert chatted == {tuple(TOKENIZER(f"<|turn|>user\n{safe}", add_special_tokens=False)["input_ids"])}


@given(before=TEXT, safe=TEXT, private=TEXT, between=TEXT, again=TEXT, behind=TEXT)
def test_what_is_read_is_the_conversation_without_the_marks(before, safe, private, between, again, behind):
    history = [user(before), {"role": "assistant", "content": "yes"}]
    marked = user(f"{safe}{BEGIN}{private}{END}{between}{BEGIN}{again}{END}{behind}")
    plain = user(f"{safe}{private}{between}{again}{behind}")
    prompt = chat_prompt(TOKENIZER, [*history, marked])
    assert TOKENIZER.decode(prompt.tokens) == TOKENIZER.decode(chat_tokens(TOKENIZER, [*history, plain]))
    assert TOKENIZER.decode(raw_prompt(TOKENIZER, marked["content"]).tokens) == plain["content"]


SAFE = ("", "a1", "a1 ", "the quick", "yes\n", "e")
PRIVATE = (
    "2b",
    " 2b",
    "  fox the",
    "\nfox",
    "",
    " ",
    "\N{FOX FACE}x",
    "\N{COMBINING ACUTE ACCENT}x",
    "</s>yes",
    "fox </s> yes",
)


@pytest.mark.parametrize("make", PUBLISHED)
@pytest.mark.parametrize("safe", SAFE)
@pytest.mark.parametrize("private", PRIVATE)
def test_published_tokenizers_put_nothing_between_private_text_and_what_precedes_it(make, safe, private):
    tokenizer = make()

    def written(tokens):
        return tokenizer.decode(list(tokens), skip_special_tokens=False)

    prompt, whole = raw_prompt(tokenizer, f"{safe}{as_private(private)}"), raw_tokens(tokenizer, safe + private)
    assert prompt.safe == tuple(raw_tokens(tokenizer, safe))
    assert written(prompt.tokens) == written(whole)
    chatted = chat_prompt(tokenizer, [user("yes"), user(f"{safe}{as_private(private)} stop")])
    assert written(chatted.tokens) == written(chat_tokens(tokenizer, [user("yes"), user(f"{safe}{private} stop")]))


def test_a_prompt_that_is_private_from_its_beginning_begins_as_any_other():
    tokenizer = llama2()
    assert raw_prompt(tokenizer, as_private("fox the")).tokens == tuple(raw_tokens(tokenizer, "fox the"))


@given(safe=TEXT, private=TEXT)
def test_private_tokens_of_a_byte_level_tokenizer_are_those_of_the_part_alone(safe, private):
    alone = tuple(TOKENIZER(private, add_special_tokens=False)["input_ids"])
    assert raw_prompt(TOKENIZER, f"{safe}{BEGIN}{private}{END}").private == alone


def test_a_mark_in_an_answer_is_no_span_and_stays_before_one():
    messages = [user("hi"), {"role": "assistant", "content": f"write {BEGIN}"}, user(f"so {BEGIN}x{END}")]
    prompt = chat_prompt(TOKENIZER, messages)
    assert TOKENIZER.decode(prompt.safe).endswith(f"write {BEGIN}<|end|><|turn|>user\nso ")
    assert TOKENIZER.decode(prompt.private) == "x<|end|><|turn|>assistant\n"


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}",
        "{{ messages[0]['content'] | length }}{% for m in messages %}{{ m['content'] }}{% endfor %}",
        "{{ messages[0]['content'][-20:] }}{% for m in messages %}{{ m['content'] }}{% endfor %}",
    ],
)
def test_a_template_that_mixes_private_text_with_what_precedes_it_is_refused(template):
    tokenizer = make_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(MisuseError, match=r"does not keep private text apart; .+ --raw"):
        chat_prompt(tokenizer, [user(f"the fox {BEGIN}a secret of some length{END} jumps")])


@pytest.mark.parametrize(
    ("text", "in_private"),
    [(f"a {BEGIN} b", True), (f"{BEGIN} a {END}", False), ("[[Private ]] a", True), ("a", False), (END, False)],
)
def test_whether_a_text_ends_in_private_is_told_for_misspelt_marks_too(text, in_private):
    assert is_in_private(text) is in_private
