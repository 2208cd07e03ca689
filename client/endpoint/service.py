"""Answers one request: its prompt, a conversation for it, what may be said of it, and what it comes to.

Knows the client and its conversations; it may not know HTTP.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client
from client.conversation import OFFLINE, Answer, Conversation, Watch
from client.endpoint.conversation_pool import Desk
from client.endpoint.faults import Fault, FaultError, broken_off, refused, unreachable, wrong
from client.endpoint.openai_requests import Asked, Kind
from client.endpoint.openai_responses import Written
from client.endpoint.stream_emitter import Say, Teller
from client.errors import RefusedError
from client.link.link_state import LinkState
from client.link.reconnecting_stream import Told
from client.private.draft_only import SPENT
from client.private.router import Confidant
from client.private.spans import Prompt, has_marks
from client.text import chat_prompt, check_characters, decode, most_characters, raw_prompt
from common.protocol.checks import prompt_fault
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import FinishReason
from common.protocol.rules import default_rule

ALIAS = "outrider"
"""A name for whatever target there is."""

_RETRY_SECONDS = 5
_CANCEL_SECONDS = 5.0  # for the server to confirm that an answer is over
_ENDLESS_SECONDS = 86400.0  # for a person who looks on, and may stop it at any time


class WhenOffline(StrEnum):
    ANSWER = "answer"  # with what the draft writes
    REFUSE = "refuse"


def find_wish(name: str) -> WhenOffline:
    """Raises MisuseError for an unknown one."""
    if name not in list(WhenOffline):
        raise MisuseError(f"--offline is {' or '.join(WhenOffline)}, not '{name}'")
    return WhenOffline(name)


@dataclass(frozen=True, slots=True)
class Manner:
    """How all requests are answered, where they do not say it themselves."""

    options: AnswerOptions
    rule: str | None  # None for the one that fits the temperature
    when_offline: WhenOffline


class Service:
    """`told` hears how the link of any conversation changes."""

    def __init__(self, client: Client, desk: Desk, manner: Manner, told: Callable[[LinkState], None]):
        self._client = client
        self._desk = desk
        self._manner = manner
        self._told = told
        self._most_characters = most_characters(client.tokenizer, client.description.context)

    @property
    def models(self) -> tuple[str, ...]:
        return (self._client.description.model, ALIAS)

    def prompt(self, asked: Asked) -> Prompt:
        """May take a while for a long text. Raises FaultError for a model that there is not, and for what cannot be
        made a prompt."""
        if asked.model not in self.models:
            known = " or ".join(f"'{name}'" for name in self.models)
            message = f"the model '{asked.model}' is not served here; ask for {known}"
            raise FaultError(Fault(404, message, parameter="model", code="model_not_found"))
        parameter = "messages" if asked.kind is Kind.CHAT else "prompt"
        characters, context = len(asked.text) + sum(map(_length, asked.messages)), self._client.description.context
        try:
            check_characters(characters, self._most_characters, context)
        except MisuseError as error:
            raise wrong(parameter, str(error), "context_length_exceeded") from error
        try:
            prompt = self._tokens(asked)
        except MisuseError as error:
            raise wrong(parameter, str(error)) from error
        if not prompt.tokens:
            raise wrong(parameter, "the prompt is empty; give it some text")
        too_long = prompt_fault(len(prompt.tokens), context)
        if too_long:
            raise wrong(parameter, too_long, "context_length_exceeded")
        return prompt

    def options(self, asked: Asked, prompt: Prompt) -> AnswerOptions:
        """Raises FaultError for what cannot be asked."""
        room = self._client.description.context - len(prompt.tokens)
        limit = room if asked.max_new_tokens is None else min(asked.max_new_tokens, room)
        try:
            options = replace(
                self._manner.options,
                max_new_tokens=limit,
                rule=self._manner.rule or default_rule(asked.sampling.temperature),
                sampling=asked.sampling,
                stop=asked.stop,
            )
            self._client.require_rule(options.rule)
        except MisuseError as error:
            raise wrong(None, str(error)) from error
        return options

    async def answer(self, prompt: Prompt, options: AnswerOptions, say: Say) -> Written:
        """Raises FaultError where nothing comes of it, or not all of it. Whoever is cancelled here ends the answer on
        the server too."""
        is_private = prompt.private is not None
        async with self._desk.conversation(prompt.tokens, only_once=is_private) as conversation:
            answering = _Answering(self._client, conversation, self._manner.when_offline, options, say, self._told)
            return await answering.answer(prompt)

    async def show(self, prompt: Prompt, options: AnswerOptions, watch: Watch, told: Told) -> Answer:
        """As `answer`, for somebody who may be shown what is provisional and see it taken back: what the draft writes
        while the link is gone is judged when it is back, however long that takes."""

        def heard(state: LinkState) -> None:
            self._told(state)
            told(state)

        is_private = prompt.private is not None
        async with self._desk.conversation(prompt.tokens, only_once=is_private) as conversation:
            usual = conversation.offline
            if not is_private:
                conversation.offline = replace(usual, patience=_ENDLESS_SECONDS)
            try:
                return await _to_its_end(self._client.confidant(conversation), prompt, options, watch, heard)
            finally:
                conversation.offline = usual

    def _tokens(self, asked: Asked) -> Prompt:
        tokenizer = self._client.tokenizer
        if asked.kind is Kind.CHAT:
            return chat_prompt(tokenizer, list(asked.messages))
        if not asked.tokens:
            return raw_prompt(tokenizer, asked.text)
        if max(asked.tokens) >= self._client.description.vocab_size:
            raise MisuseError(f"token {max(asked.tokens)} lies outside the vocabulary")
        if has_marks(decode(tokenizer, asked.tokens)):
            raise MisuseError("private spans must come as text, not as tokens")
        return Prompt(asked.tokens)


class _Answering:
    """One answer on one conversation."""

    def __init__(
        self,
        client: Client,
        conversation: Conversation,
        when_offline: WhenOffline,
        options: AnswerOptions,
        say: Say,
        told: Callable[[LinkState], None],
    ):
        self._client = client
        self._conversation = conversation
        self._confidant = client.confidant(conversation)
        self._refuses = when_offline is WhenOffline.REFUSE
        self._options = options
        self._told = told
        keep = _keep_nothing if self._refuses else conversation.keep
        self._teller = Teller(client.tokenizer, options.stop, say, keep, self._link_is_gone, conversation.cancel)

    async def answer(self, prompt: Prompt) -> Written:
        watch = self._teller if prompt.private is None else self._overhear
        try:
            answer = await _to_its_end(self._confidant, prompt, self._options, watch, self._link_changed)
        finally:
            self._teller.rest()
        return self._written(prompt, answer)

    def _link_changed(self, state: LinkState) -> None:
        self._told(state)
        self._teller.link_changed(state)

    def _link_is_gone(self) -> None:
        if self._refuses and not self._teller.text:
            self._conversation.cancel()

    def _overhear(self, _: Sequence[int], run: Sequence[int]) -> None:
        """What the draft writes of a private prompt is all that there will be."""
        self._teller.unjudged(run[self._teller.alone :])

    def _written(self, prompt: Prompt, answer: Answer) -> Written:
        is_cut = answer.finish_reason in (OFFLINE, FinishReason.CANCELLED) and not self._teller.stopped
        if is_cut and self._refuses:
            raise unreachable(_RETRY_SECONDS)
        if not answer.private and not self._refuses:
            self._teller.unjudged(answer.provisional)
        self._teller.end()
        if answer.failure:
            raise FaultError(broken_off(answer.failure))
        if is_cut and not self._teller.text:
            raise unreachable(_RETRY_SECONDS)
        tokens = (*answer.tokens, *answer.provisional)
        about: dict[str, Any] = {
            "private": answer.private,
            "lossy": self._options.lossy or answer.kept > 0,
            "seed": self._options.seed,
            "stats": answer.stats.as_dict(),
        }
        return Written(
            self._teller.text,
            self._reason(answer, tokens),
            len(prompt.tokens),
            len(tokens),
            self._teller.alone,
            {**about, "note": answer.note} if answer.note else about,
        )

    def _reason(self, answer: Answer, tokens: Sequence[int]) -> str:
        """OpenAI's word for why the text ends where it does."""
        if self._teller.stopped or (tokens and tokens[-1] in self._client.description.end_tokens):
            return FinishReason.END
        is_whole = answer.finish_reason in (FinishReason.END, SPENT)
        return FinishReason.END if is_whole else FinishReason.LENGTH


async def _to_its_end(confidant: Confidant, prompt: Prompt, options: AnswerOptions, watch: Watch, told: Told) -> Answer:
    """The answer. Raises FaultError where nothing comes of it; who is cancelled here ends it on the server too."""
    working = asyncio.ensure_future(confidant.answer(prompt, options.settings(), watch, told))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        confidant.cancel()
        with suppress(Exception):
            await asyncio.wait_for(working, _CANCEL_SECONDS)
        raise
    except RefusedError as error:
        retry_after = math.ceil(error.retry_after) or _RETRY_SECONDS
        raise FaultError(refused(str(error), retry_after, over_quota=error.over_quota)) from error
    except MisuseError as error:
        raise wrong(None, str(error)) from error
    except OutriderError as error:
        raise unreachable(_RETRY_SECONDS) from error


def _length(message: Mapping[str, str]) -> int:
    return len(message["content"])


def _keep_nothing(_: int) -> Sequence[int]:
    return ()
