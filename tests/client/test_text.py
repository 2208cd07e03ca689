"""Prompts and growing answers, with a real byte-level tokenizer."""

import random
from types import SimpleNamespace

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from client.private.spans import SplitPrompt
from client.text import (
    IncrementalText,
    answer_text,
    before_answer,
    chat_prompt,
    chat_tokens,
    check_characters,
    decode,
    most_characters,
    raw_prompt,
    raw_tokens,
)
from common.protocol.errors import MisuseError
from tests.families import make_tokenizer
from tests.published import IM_END, PUBLISHED, llama2

TEXT = "naïve 日本語 🦊🚀 e\N{COMBINING ACUTE ACCENT} the quick brown fox\n"


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
def test_no_character_is_shown_before_its_last_byte(tokenizer, stride):
    tokens = raw_tokens(tokenizer, TEXT)
    text = IncrementalText(tokenizer, ())
    shown = [text.commit(tokens[start : start + stride]) for start in range(0, len(tokens), stride)]
    assert "".join(shown) + text.flush() == TEXT
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in shown)


def test_a_preview_continues_the_final_text_and_changes_nothing(tokenizer):
    tokens = raw_tokens(tokenizer, TEXT)
    text = IncrementalText(tokenizer, ())
    final = text.commit(tokens[:9])
    assert TEXT.startswith(final + text.preview(tokens[9:14]))
    assert final + text.commit(tokens[9:]) == TEXT


def test_a_broken_end_is_shown_only_when_nothing_more_will_come(tokenizer):
    tokens = raw_tokens(tokenizer, "a🦊")[:-1]
    text = IncrementalText(tokenizer, ())
    final = text.commit(tokens)
    assert final + text.flush() == decode(tokenizer, tokens)


@pytest.fixture(scope="module")
def byte_tokens():
    """Falls back to bytes; bytes that are not valid text are dropped."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581fox", "\u2581", "a"]
    tokenizer = Tokenizer(models.BPE({piece: id_ for id_, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def in_pieces(tokenizer, tokens, rng):
    text, start, shown = IncrementalText(tokenizer, ()), 0, ""
    while start < len(tokens):
        end = start + rng.randint(1, 5)
        shown += text.commit(tokens[start:end])
        start = end
    return shown + text.flush()


def garbage(rng, others):
    """Text, bytes that are none, and other tokens, as a model that was cut off in mid-character makes them."""
    text = "\N{FOX FACE}\u3042\u0938\u00e9a".encode()
    return [1 + rng.choice(text) if rng.random() < 0.8 else rng.choice(others) for _ in range(rng.randint(1, 40))]


def test_bytes_that_are_no_text_come_out_the_same_in_whatever_pieces(tokenizer, byte_tokens):
    for case in range(300):
        rng = random.Random(case)
        for each, others in ((byte_tokens, (257, 258, 259)), (tokenizer, range(2, 280))):
            tokens = garbage(rng, others)
            assert in_pieces(each, tokens, rng) == answer_text(each, (), tokens)


def test_a_byte_that_is_no_text_breaks_nothing_beside_it(byte_tokens):
    before, behind = ([1 + byte for byte in text.encode()] for text in ("\u3042\u3044", "\N{FOX FACE}\u3046"))
    text = IncrementalText(byte_tokens, ())
    shown = [text.commit([token]) for token in [257, *before, 1 + 0x80, *behind, 257]]
    assert "".join(shown) == "fox\u3042\u3044\N{REPLACEMENT CHARACTER}\N{FOX FACE}\u3046 fox"


def test_a_byte_that_is_no_text_at_the_end_is_one_broken_character_behind_what_was_final(byte_tokens):
    text = IncrementalText(byte_tokens, ())
    shown = text.commit([*(1 + byte for byte in "\u3042".encode()), 1 + 0x80]) + text.flush()
    assert shown == "\u3042\N{REPLACEMENT CHARACTER}"


def test_text_that_is_whole_is_what_the_tokenizer_says(tokenizer, byte_tokens):
    spelt = [257, *(1 + byte for byte in TEXT.encode()), 257, 259, 257]
    for each, tokens in ((tokenizer, raw_tokens(tokenizer, TEXT)), (byte_tokens, spelt)):
        assert answer_text(each, (), tokens) == decode(each, tokens)


def test_a_word_behind_a_special_token_that_is_shown_keeps_its_blank():
    def decode(tokens, skip_special_tokens):
        return "".join(f" {'abc'[token]}" for token in tokens).removeprefix(" ")

    text = IncrementalText(SimpleNamespace(decode=decode), (), {9: "</think>"})
    assert text.commit([0, 1, 9, 9, 2]) + text.flush() == "a b</think></think> c"


def test_end_tokens_have_no_text(tokenizer):
    assert decode(tokenizer, [*raw_tokens(tokenizer, "fox"), tokenizer.eos_token_id]) == "fox"


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("make", PUBLISHED)
def test_an_end_token_is_no_text_whether_it_is_special_or_not(make, special):
    tokenizer = make(AddedToken(IM_END, special=special))
    end = tokenizer.convert_tokens_to_ids(IM_END)
    tokens = [*raw_tokens(tokenizer, '{"age": 87}'), end]
    text = IncrementalText(tokenizer, {end})
    assert text.preview(tokens) == answer_text(tokenizer, {end}, tokens) == '{"age": 87}'
    assert text.commit(tokens) + text.flush() == '{"age": 87}'


def test_a_word_that_ends_an_answer_is_no_text_and_a_character_before_it_is_broken_off():
    tokenizer = llama2()
    end = tokenizer.convert_tokens_to_ids("\N{LOWER ONE EIGHTH BLOCK}stop")
    tokens = [*raw_tokens(tokenizer, "yes\N{FOX FACE}")[:-1], end]
    assert answer_text(tokenizer, {end}, tokens) == answer_text(tokenizer, {end}, tokens[:-1])
    assert answer_text(tokenizer, {end}, tokens).startswith("yes\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("make", PUBLISHED)
@pytest.mark.parametrize("asked", ["the quick", "the ", "the quick\n", "yes \N{FOX FACE}"])
@pytest.mark.parametrize("answered", [" fox fox fox", "fox", "  fox", "\N{FOX FACE} fox"])
def test_the_answer_to_a_raw_prompt_goes_on_in_its_text(make, asked, answered):
    tokenizer = make()
    prompt = raw_prompt(tokenizer, asked)
    # Behind a line, of which no word of the answer becomes a part.
    tokens = raw_tokens(tokenizer, f"\n{answered}")[len(raw_tokens(tokenizer, "\n")) :]
    before = before_answer(tokenizer, prompt)
    text = IncrementalText(tokenizer, (), before=before)
    assert text.preview(tokens) == answered
    assert "".join(text.commit([token]) for token in tokens) + text.flush() == answered
    whole = decode(tokenizer, [*prompt.tokens, *tokens])
    assert whole[len(decode(tokenizer, prompt.tokens)) :] == answered
    assert answer_text(tokenizer, (), tokens, before) == answered


def test_the_answer_to_a_chat_is_a_text_of_its_own():
    tokenizer = llama2()
    prompt = chat_prompt(tokenizer, [{"role": "user", "content": "the quick"}])
    tokens = raw_tokens(tokenizer, "fox fox")
    assert answer_text(tokenizer, (), tokens, before_answer(tokenizer, prompt)) == "fox fox"


def test_a_prompt_of_special_tokens_or_parts_of_characters_gives_what_context_it_has():
    tokenizer = llama2()
    fox = raw_tokens(tokenizer, "fox fox")
    for prompt, text in (((1, 2), "fox fox"), ((fox[0], 2, 2), " fox fox"), ((fox[0], 3 + 0xF0), " fox fox")):
        assert answer_text(tokenizer, (), fox, before_answer(tokenizer, SplitPrompt(prompt, is_raw=True))) == text


def test_later_turns_begin_as_earlier_ones_did(tokenizer):
    first = chat_tokens(tokenizer, [{"role": "user", "content": "hi"}])
    both = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "?"},
    ]
    assert chat_tokens(tokenizer, both)[: len(first)] == first


def test_a_template_that_fails_is_one_sentence():
    tokenizer = make_tokenizer()
    for template in ("{{ raise_exception('roles must alternate') }}", "{{ messages[0]['content'] + 1 }}", "{% if %}"):
        tokenizer.chat_template = template
        with pytest.raises(MisuseError, match=r"template fails \(.+\); .*--raw"):
            chat_tokens(tokenizer, [{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ (lambda: 1).__globals__ }}",
        "{{ messages[0].update({'content': 'x'}) }}",
        "{% include '/etc/passwd' %}",
        "{{ range(10 ** 9) | list }}",
        "{{ '%s'.__mod__.__self__.__class__ }}",
    ],
)
def test_a_template_is_a_program_in_a_sandbox(template):
    """It comes with a server's bundle: it may neither access other objects nor change its arguments."""
    tokenizer = make_tokenizer()
    tokenizer.chat_template = template
    messages = [{"role": "user", "content": "hi"}]
    with pytest.raises(MisuseError, match="the target's chat template fails"):
        chat_tokens(tokenizer, messages)
    assert messages == [{"role": "user", "content": "hi"}]


def test_what_a_template_complains_of_commands_no_terminal():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('\x1b[2J' * 1000) }}"
    with pytest.raises(MisuseError) as refused:
        chat_tokens(tokenizer, [{"role": "user", "content": "hi"}])
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def test_a_target_without_a_chat_template_is_asked_raw():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(MisuseError, match="--raw"):
        chat_tokens(tokenizer, [{"role": "user", "content": "hi"}])


def test_a_text_that_cannot_fit_is_told_with_both_numbers_and_not_made_tokens():
    tokenizer = make_tokenizer()
    most = most_characters(tokenizer, 100)
    assert most == 100 * max(map(len, tokenizer.get_vocab()))
    check_characters(most, most, 100)
    with pytest.raises(
        MisuseError, match=f"{most + 1} characters, but this model's maximum context length is 100 tokens"
    ):
        check_characters(most + 1, most, 100)
