"""Answers requests to one model: makes prompt and options, runs them on a conversation of the pool, builds the result.

Knows the client and its conversations; it may not know HTTP.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from client.answer import OFFLINE, Answer, TokenListener
from client.answering import AnswerOptions
from client.assembly import Client
from client.conversation import Conversation
from client.endpoint.conversation_pool import ConversationPool
from client.endpoint.faults import FaultError, broken_off, refused, unreachable, wrong
from client.endpoint.openai_requests import CompletionRequest, RequestKind
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.stream_emitter import Emit, StreamEmitter
from client.errors import RefusedError
from client.link.link_state import LinkState
from client.link.reconnecting_stream import LinkListener
from client.private.draft_only import SPENT
from client.private.router import PrivacyRouter
from client.private.spans import SplitPrompt, has_marks
from client.text import chat_prompt, check_characters, decode, most_characters, raw_prompt
from common.protocol.checks import prompt_fault
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import FinishReason
from common.protocol.rules import default_rule

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_NAME_LENGTH = 12  # of fingerprints, for people
_RETRY_SECONDS = 5
_CANCEL_SECONDS = 5.0  # for the server to confirm that an answer is over
_ENDLESS_SECONDS = 86400.0  # for a person who looks on, and may stop it at any time


class WhenOffline(StrEnum):
    ANSWER = "answer"  # with what the draft writes
    REFUSE = "refuse"


def find_offline_behaviour(name: str) -> WhenOffline:
    """Raises MisuseError for an unknown one."""
    if name not in list(WhenOffline):
        raise MisuseError(f"--offline is {' or '.join(WhenOffline)}, not '{name}'")
    return WhenOffline(name)


@dataclass(frozen=True, slots=True)
class EndpointDefaults:
    """How all requests are answered if they do not say it themselves."""

    options: AnswerOptions
    rule: str | None  # None for the one that fits the temperature
    when_offline: WhenOffline


class Service:
    """`on_link_change` is called when the link of any conversation changes."""

    def __init__(
        self, client: Client, pool: ConversationPool, defaults: EndpointDefaults, on_link_change: LinkListener
    ):
        self._client = client
        self._pool = pool
        self._defaults = defaults
        self._on_link_change = on_link_change
        self._most_characters = most_characters(client.tokenizer, client.description.context)

    @property
    def model(self) -> str:
        """Its name."""
        return self._client.description.model

    @property
    def context(self) -> int:
        """The tokens of the longest sequence."""
        return self._client.description.context

    @property
    def tokenizer(self) -> "Tokenizer":
        return self._client.tokenizer

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Short names of what may write an answer: the target and the draft model."""
        return self._client.description.fingerprint[:_NAME_LENGTH], self._client.manifest.id[:_NAME_LENGTH]

    def prompt(self, request: CompletionRequest) -> SplitPrompt:
        """May take a while for a long text. Raises FaultError for what cannot be made a prompt."""
        parameter = "messages" if request.kind is RequestKind.CHAT else "prompt"
        characters, context = len(request.text) + sum(map(_length, request.messages)), self.context
        try:
            check_characters(characters, self._most_characters, context)
        except MisuseError as error:
            raise wrong(parameter, str(error), "context_length_exceeded") from error
        try:
            prompt = self._tokens(request)
        except MisuseError as error:
            raise wrong(parameter, str(error)) from error
        if not prompt.tokens:
            raise wrong(parameter, "the prompt is empty; give it some text")
        too_long = prompt_fault(len(prompt.tokens), context)
        if too_long:
            raise wrong(parameter, too_long, "context_length_exceeded")
        return prompt

    def options(self, request: CompletionRequest, prompt: SplitPrompt) -> AnswerOptions:
        """Raises FaultError for options that cannot be had."""
        room = self.context - len(prompt.tokens)
        limit = room if request.max_new_tokens is None else min(request.max_new_tokens, room)
        try:
            options = replace(
                self._defaults.options,
                max_new_tokens=limit,
                rule=self._defaults.rule or default_rule(request.sampling.temperature),
                sampling=request.sampling,
                stop=request.stop,
            )
            self._client.require_rule(options.rule)
        except MisuseError as error:
            raise wrong(None, str(error)) from error
        return options

    async def answer(self, prompt: SplitPrompt, options: AnswerOptions, emit: Emit) -> FinishedAnswer:
        """Raises FaultError if nothing comes of it, or not all of it. Whoever is cancelled here ends the answer on
        the server too."""
        is_private = prompt.private is not None
        async with self._pool.conversation(self.model, prompt.tokens, only_once=is_private) as conversation:
            answering = _Answering(
                self._client, conversation, self._defaults.when_offline, options, emit, self._on_link_change
            )
            return await answering.answer(prompt)

    async def show(
        self, prompt: SplitPrompt, options: AnswerOptions, on_tokens: TokenListener, on_link_change: LinkListener
    ) -> Answer:
        """As `answer`, for a page that may show provisional text and retract it: what is drafted while the link is gone
        is verified when it is back, however long that takes."""

        def link_changed(state: LinkState) -> None:
            self._on_link_change(state)
            on_link_change(state)

        is_private = prompt.private is not None
        async with self._pool.conversation(self.model, prompt.tokens, only_once=is_private) as conversation:
            usual = conversation.offline
            if not is_private:
                conversation.offline = replace(usual, wait_s=_ENDLESS_SECONDS)
            try:
                return await _to_its_end(
                    self._client.privacy_router(conversation), prompt, options, on_tokens, link_changed
                )
            finally:
                conversation.offline = usual

    def _tokens(self, request: CompletionRequest) -> SplitPrompt:
        tokenizer = self._client.tokenizer
        if request.kind is RequestKind.CHAT:
            return chat_prompt(tokenizer, list(request.messages))
        if not request.tokens:
            return raw_prompt(tokenizer, request.text)
        if max(request.tokens) >= self._client.description.vocab_size:
            raise MisuseError(f"token {max(request.tokens)} lies outside the vocabulary")
        if has_marks(decode(tokenizer, request.tokens)):
            raise MisuseError("private spans must come as text, not as tokens")
        return SplitPrompt(request.tokens)


class _Answering:
    """One answer on one conversation."""

    def __init__(
        self,
        client: Client,
        conversation: Conversation,
        when_offline: WhenOffline,
        options: AnswerOptions,
        emit: Emit,
        on_link_change: LinkListener,
    ):
        self._client = client
        self._conversation = conversation
        self._router = client.privacy_router(conversation)
        self._refuses = when_offline is WhenOffline.REFUSE
        self._options = options
        self._on_link_change = on_link_change
        accept = _accept_nothing if self._refuses else conversation.accept_unverified
        self._emitter = StreamEmitter(
            client.tokenizer, options.stop, emit, accept, self._link_is_gone, conversation.cancel
        )

    async def answer(self, prompt: SplitPrompt) -> FinishedAnswer:
        on_tokens = self._emitter if prompt.private is None else self._emit_private
        try:
            answer = await _to_its_end(self._router, prompt, self._options, on_tokens, self._link_changed)
        finally:
            self._emitter.ignore_link()
        return self._finish(prompt, answer)

    def _link_changed(self, state: LinkState) -> None:
        self._on_link_change(state)
        self._emitter.link_changed(state)

    def _link_is_gone(self) -> None:
        if self._refuses and not self._emitter.text:
            self._conversation.cancel()

    def _emit_private(self, _: Sequence[int], run: Sequence[int]) -> None:
        """What the draft writes of a private prompt is all that there will be."""
        self._emitter.emit_unverified(run[self._emitter.unverified :])

    def _finish(self, prompt: SplitPrompt, answer: Answer) -> FinishedAnswer:
        is_cut = answer.finish_reason in (OFFLINE, FinishReason.CANCELLED) and not self._emitter.stopped
        if is_cut and self._refuses:
            raise unreachable(_RETRY_SECONDS)
        if not answer.private and not self._refuses:
            self._emitter.emit_unverified(answer.provisional)
        self._emitter.end()
        if answer.failure:
            raise FaultError(broken_off(answer.failure))
        if is_cut and not self._emitter.text:
            raise unreachable(_RETRY_SECONDS)
        tokens = (*answer.tokens, *answer.provisional)
        about: dict[str, Any] = {
            "private": answer.private,
            "lossy": self._options.lossy or answer.accepted_unverified > 0,
            "seed": self._options.seed,
            "stats": answer.stats.as_dict(),
        }
        return FinishedAnswer(
            self._emitter.text,
            self._reason(answer, tokens),
            len(prompt.tokens),
            len(tokens),
            self._emitter.unverified,
            {**about, "note": answer.note} if answer.note else about,
        )

    def _reason(self, answer: Answer, tokens: Sequence[int]) -> str:
        """OpenAI's word for why the text ends where it does."""
        if self._emitter.stopped or (tokens and tokens[-1] in self._client.description.end_tokens):
            return FinishReason.END
        is_whole = answer.finish_reason in (FinishReason.END, SPENT)
        return FinishReason.END if is_whole else FinishReason.LENGTH


async def _to_its_end(
    router: PrivacyRouter,
    prompt: SplitPrompt,
    options: AnswerOptions,
    on_tokens: TokenListener,
    on_link_change: LinkListener,
) -> Answer:
    """The answer. Raises FaultError if nothing comes of it; who is cancelled here ends it on the server too."""
    working = asyncio.ensure_future(router.answer(prompt, options.settings(), on_tokens, on_link_change))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        router.cancel()
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


def _accept_nothing(_: int) -> Sequence[int]:
    return ()
