"""A tokenizer without transformers gives transformers' own results, and is not made where it would not."""

import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from common.models.shipped import FAMILIES
from common.models.tokenizer import PlainTokenizer, plain_tokenizer
from tests.families import make_checkpoint, make_tokenizer

TEXTS = (
    "",
    "Hi",
    "the quick brown fox<|end|> jumps\n\n",
    "naïve 日本語 🦊🚀 e\N{COMBINING ACUTE ACCENT}",
    "  <|turn|>user\nno  space .<|end|>",
    "a" * 3000,
)
MESSAGES = [{"role": "user", "content": "the <|end|> fox"}, {"role": "assistant", "content": "é"}]


def with_bos() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE({"<unk>": 0, "<s>": 1, "a": 2, "b": 3}, [], unk_token="<unk>"))
    backend.decoder = decoders.Fuse()
    backend.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    backend.enable_truncation(3)
    backend.enable_padding(length=9)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", unk_token="<unk>", clean_up_tokenization_spaces=True
    )


def shipped() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(FAMILIES["demo"].target)


def split() -> PreTrainedTokenizerFast:
    tokenizer = make_tokenizer()
    tokenizer.split_special_tokens = True
    return tokenizer


MAKERS = {"bytes": make_tokenizer, "begins with a token": with_bos, "shipped": shipped, "special as text": split}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("kept", [False, True])
def test_both_say_the_same(make, kept: bool) -> None:
    theirs = make()
    ours = plain_tokenizer(theirs)
    assert ours is not None
    if kept:
        ours = PlainTokenizer.from_bytes(ours.to_bytes())
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.chat_template == theirs.chat_template
    for text in TEXTS:
        for special in (True, False):
            tokens = theirs(text, add_special_tokens=special)["input_ids"]
            assert ours(text, add_special_tokens=special)["input_ids"] == tokens
            for skip in (True, False):
                text = theirs.decode(tokens, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
                assert ours.decode(tokens, skip_special_tokens=skip) == text
        assert ours(text)["input_ids"] == theirs(text)["input_ids"]
    if theirs.chat_template:
        for tokenize in (True, False):
            said = {"add_generation_prompt": True, "tokenize": tokenize, "return_dict": False}
            assert ours.apply_chat_template(MESSAGES, **said) == theirs.apply_chat_template(MESSAGES, **said)


def test_a_template_among_several_is_the_default_one() -> None:
    theirs = make_tokenizer()
    theirs.chat_template = {"default": "{{ messages[0].content }}", "tool_use": "{{ tools[0].x }}{{ more }}"}
    ours = plain_tokenizer(theirs)
    assert ours is not None
    for kept in (ours, PlainTokenizer.from_bytes(ours.to_bytes())):
        assert kept.apply_chat_template(MESSAGES, tokenize=False) == "the <|end|> fox"
        for variables in ({}, {"more": "!"}):
            said = {"tools": [{"x": "one"}], "tokenize": False, **variables}
            rendered = theirs.apply_chat_template(MESSAGES, add_generation_prompt=True, **said)
            assert kept.apply_chat_template(MESSAGES, **said) == rendered
    theirs.chat_template = {"tool_use": "tools"}
    assert plain_tokenizer(theirs) is None


def test_what_describes_answers_is_kept() -> None:
    theirs = make_tokenizer()
    theirs.response_template = {"fields": {"content": {}}}
    ours = plain_tokenizer(theirs)
    assert ours is not None
    for kept in (ours, PlainTokenizer.from_bytes(ours.to_bytes())):
        assert kept.response_template == theirs.response_template
        added = {number: token.content for number, token in kept.added_tokens_decoder.items()}
        assert added == {number: token.content for number, token in theirs.added_tokens_decoder.items()}


def test_a_class_with_ways_of_its_own_is_left_to_transformers() -> None:
    class Odd(PreTrainedTokenizerFast):
        def _decode(self, *args, **kwargs):
            return super()._decode(*args, **kwargs).upper()

    assert plain_tokenizer(Odd(tokenizer_object=make_tokenizer().backend_tokenizer)) is None


def test_what_says_something_else_on_trial_is_left_to_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = make_tokenizer()
    monkeypatch.setattr(theirs, "decode", lambda *args, **kwargs: "else")
    assert plain_tokenizer(theirs) is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "Expecting value"),
        (b"{}", "'tokenizer'"),
        (b"[]", "list indices"),
        (b"\xff", "can't decode"),
        (b'{"tokenizer": "{}"}', "Model missing"),
    ],
)
def test_bytes_that_it_did_not_write_are_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(Exception, match=sentence):
        PlainTokenizer.from_bytes(data)


def test_it_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, "llama")
    tokenizer = plain_tokenizer(AutoTokenizer.from_pretrained(tmp_path))
    assert tokenizer is not None
    (tmp_path / "kept").write_bytes(tokenizer.to_bytes())
    code = (
        "import sys\n"
        "from common.models.tokenizer import PlainTokenizer\n"
        "kept = PlainTokenizer.from_bytes(open(sys.argv[1], 'rb').read())\n"
        "kept.apply_chat_template([{'role': 'user', 'content': 'x'}], tokenize=True)\n"
        "print([name for name in ('transformers', 'torch', 'numpy') if name in sys.modules])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "kept")], capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"
