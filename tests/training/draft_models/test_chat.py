"""Answer masks: what is learned is what the target would have to generate, under any chat template."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from common.models import chat_template
from common.protocol.errors import MisuseError
from tests.families import CHAT_TEMPLATE, END_TOKEN, make_tokenizer
from tests.training.draft_models.templates import CHATML, FORGETTING, LLAMA3, MISTRAL
from training.draft_models.chat import TODAY, ChatRenderer, Sample, TemplateRefusedError
from training.draft_models.records import Turn

TALK = (Turn("user", "Hi"), Turn("assistant", "Hello <b>\n"), Turn("user", "Naïve?"), Turn("assistant", "Ja, 日本!"))


def chat(template: str | None) -> ChatRenderer:
    tokenizer: PreTrainedTokenizerFast = make_tokenizer()
    tokenizer.chat_template = template
    return ChatRenderer(tokenizer, frozenset([tokenizer.convert_tokens_to_ids(END_TOKEN)]))


def learned(sample: Sample, renderer: ChatRenderer) -> list[str]:
    """The text of each run of answer tokens."""
    runs: list[list[int]] = []
    for index, (token, answer) in enumerate(zip(sample.ids.tolist(), sample.answers.tolist(), strict=True)):
        if answer and (index == 0 or not sample.answers[index - 1]):
            runs.append([])
        if answer:
            runs[-1].append(token)
    return [str(renderer.tokenizer.decode(run)) for run in runs]


def samples(renderer: ChatRenderer, turns: tuple[Turn, ...]) -> list[Sample]:
    return renderer.samples([renderer.mark(turns)])[0]


@pytest.mark.parametrize(
    ("template", "answers"),
    [
        (CHAT_TEMPLATE, ["Hello <b>\n<|end|>", "Ja, 日本!<|end|>"]),
        (CHATML, ["Hello <b>\n<|end|>", "Ja, 日本!<|end|>"]),
        (LLAMA3, ["Hello <b><|end|>", "Ja, 日本!<|end|>"]),
        (MISTRAL, [" Hello <b>\n<|end|>", " Ja, 日本!<|end|>"]),
    ],
)
def test_the_answers_and_their_ends_are_learned(template: str, answers: list[str]) -> None:
    renderer = chat(template)
    (sample,) = samples(renderer, TALK)
    assert learned(sample, renderer) == answers
    assert str(renderer.tokenizer.decode(sample.ids.tolist())) == renderer.render(TALK)


def test_where_history_is_rewritten_every_answer_is_a_sample() -> None:
    renderer = chat(FORGETTING)
    first, second = samples(renderer, TALK)
    assert learned(first, renderer) == ["<think>\n\n</think>\n\nHello <b>\n<|end|>"]
    assert learned(second, renderer) == ["<think>\n\n</think>\n\nJa, 日本!<|end|>"]
    assert "<think>" not in str(renderer.tokenizer.decode(second.ids[: int(second.answers.argmax())].tolist()))


def test_a_prompt_ends_where_the_answer_starts() -> None:
    renderer = chat(CHATML)
    (sample,) = samples(renderer, TALK)
    assert sample.ids[: int(sample.answers.argmax())].tolist() == renderer.prompt(TALK[:1])


def test_templates_that_write_the_date_write_the_same_one_every_day() -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Tomorrow:
            return cls(2031, 5, 17)

    renderer = chat("{{ strftime_now('%d %b %Y') }}\n" + CHATML)
    said = renderer.render(TALK)
    assert said.startswith(f"{TODAY:%d %b %Y}\n")
    with pytest.MonkeyPatch.context() as patch:
        for module in (chat_template, chat_template_utils):
            patch.setattr(module, "datetime", Tomorrow)
        assert renderer.render(TALK) == said


@pytest.mark.parametrize(
    "template", [CHAT_TEMPLATE, CHATML, LLAMA3, FORGETTING, "{{ bos_token }}{{ eos_token }}" + CHATML]
)
@pytest.mark.parametrize("asking", [False, True])
def test_conversations_are_rendered_as_transformers_renders_them(template: str, asking: bool) -> None:
    renderer = chat(template)
    tokenizer: Any = renderer.tokenizer
    messages = [{"role": turn.role, "content": turn.content} for turn in TALK]
    theirs = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asking)
    assert renderer.render(TALK, asking) == theirs


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{% for m in messages %}", "{{ 'a'.index('b') }}"])
def test_whatever_a_template_raises_it_refuses(template: str) -> None:
    with pytest.raises(TemplateRefusedError):
        chat(template).mark(TALK)


def test_what_a_template_refuses_is_told_apart() -> None:
    with pytest.raises(TemplateRefusedError, match="alternate"):
        chat(MISTRAL).mark((TALK[0], TALK[0], TALK[1]))


def test_an_answer_to_nothing_is_not_learned() -> None:
    renderer = chat(CHATML)
    (sample,) = samples(renderer, (Turn("assistant", "Welcome"), *TALK[:2]))
    assert learned(sample, renderer) == ["Hello <b>\n<|end|>"]
    assert samples(renderer, (Turn("assistant", "Welcome"),)) == []
    assert samples(renderer, TALK[:1]) == []


def test_a_question_after_the_last_answer_is_left_off() -> None:
    renderer = chat(CHATML)
    (sample,) = samples(renderer, TALK[:3])
    assert str(renderer.tokenizer.decode(sample.ids.tolist())) == renderer.render(TALK[:2])


def test_a_tokenizer_without_a_chat_template_is_one_sentence() -> None:
    with pytest.raises(MisuseError, match="has no chat template, so only plain text"):
        chat(None)
