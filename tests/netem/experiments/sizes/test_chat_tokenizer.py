import pytest

from common.models.chat_template import render
from netem.experiments.sizes.chat_tokenizer import LLAMA3, QWEN3, ChatForm, make_tokenizer, special_id

SIZE = 2048


@pytest.mark.parametrize("form", [LLAMA3, QWEN3])
def test_tokens_fill_the_vocabulary_and_the_special_ones_come_last(form: ChatForm) -> None:
    tokenizer = make_tokenizer(form, SIZE)
    assert len(tokenizer) == SIZE - form.padded
    for name in form.special:
        assert tokenizer.convert_tokens_to_ids(name) == special_id(form, SIZE, name)


def test_merges_reach_beyond_pairs_of_bytes() -> None:
    size = 256 + 256**2 + 1000 + LLAMA3.specials
    tokenizer = make_tokenizer(LLAMA3, size)
    assert len(tokenizer) == size
    longest = tokenizer.convert_ids_to_tokens(size - LLAMA3.specials - 1)
    assert isinstance(longest, str)
    assert len(longest) == 3


def test_a_text_comes_back_in_fewer_tokens_than_bytes() -> None:
    text = "Wörld, 日本"
    tokenizer = make_tokenizer(QWEN3, 70_000)
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens) == text
    assert len(tokens) < len(text.encode())


def test_a_vocabulary_without_room_for_all_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        make_tokenizer(LLAMA3, 400)


@pytest.mark.parametrize("form", [LLAMA3, QWEN3])
def test_clients_render_the_template_as_transformers_does(form: ChatForm) -> None:
    tokenizer = make_tokenizer(form, SIZE)
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Hello "},
        {"role": "assistant", "content": "<think>\nwell\n</think>\n\nHi"},
        {"role": "user", "content": "And now?"},
    ]
    expected = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert render(form.template, chat, tokenizer.special_tokens_map) == expected
    assert "And now?" in str(expected)
    assert str(expected).startswith(form.begin or "<|im_start|>system")
