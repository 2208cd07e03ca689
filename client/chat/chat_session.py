"""One chat: its transcript, and the session that answers.

Every text goes to the server through a `PrivacyRouter` or not at all. May know tokenizers and sessions; it may not know
screens, files or commands.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from client.answer import OFFLINE, Answer, TokenListener
from client.answering import AnswerOptions
from client.chat.transcript import DraftedAnswer, Exchange, Transcript, answered, messages
from client.drafting.policies import Policy
from client.errors import TooLongError
from client.link.offline import OfflineOptions
from client.private.spans import SplitPrompt
from client.stats import Stats
from client.stops import before_stop
from client.text import answer_text, chat_prompt, chat_tokens
from common.protocol.errors import MisuseError
from common.protocol.messages import FinishReason, Settings
from common.rpc.description import ServerDescription

if TYPE_CHECKING:
    from client.link.reconnecting_stream import LinkListener
    from common.models.tokenizer import Tokenizer

_WHOLE = (FinishReason.END, FinishReason.LENGTH)


class ChatRouter(Protocol):
    """Answers the prompts of one conversation and keeps to this machine what of it is private, as `PrivacyRouter`
    does."""

    @property
    def is_private(self) -> bool: ...

    @property
    def is_sound(self) -> bool: ...

    @property
    def offline(self) -> OfflineOptions: ...

    @offline.setter
    def offline(self, offline: OfflineOptions) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def cancel(self) -> None: ...

    def retry_now(self) -> None: ...

    async def answer(
        self,
        prompt: SplitPrompt,
        settings: Settings,
        on_tokens: TokenListener,
        on_link_change: "LinkListener",
        offered: Sequence[int] = (),
    ) -> Answer: ...


class ChatClient(Protocol):
    """What a chat needs of a `Client`."""

    @property
    def description(self) -> ServerDescription: ...

    @property
    def tokenizer(self) -> "Tokenizer": ...

    def require_rule(self, rule: str) -> None: ...

    def require_idle(self, idle: str) -> None: ...

    def load_routers(self, policy: Policy) -> Callable[[OfflineOptions], AbstractAsyncContextManager[ChatRouter]]: ...


class ChatSession:
    """`begin` it before anything is asked, and `close` it."""

    def __init__(self, client: ChatClient, policy: Policy, offline: OfflineOptions, system: str = ""):
        """Raises OutriderError if its draft cannot be loaded or the target has no chat template."""
        chat_tokens(client.tokenizer, [{"role": "user", "content": ""}])
        self.exchanges: Transcript = ()
        self.stats: list[Stats] = []  # of each answer
        self._client = client
        self._policy = policy
        self._offline = offline
        self._open_router = client.load_routers(policy)
        self._session = AsyncExitStack()
        self._is_held = False
        self._system = system
        self._is_kept_private = False

    async def begin(self) -> None:
        """Begins a new session, which the server cannot connect with the one before."""
        await self.close()
        self._router = await self._session.enter_async_context(self._open_router(self._offline))
        if self._is_held:
            self._router.hold()

    async def begin_anew(self) -> None:
        """As `begin`, with an empty transcript; the only way out of privacy."""
        await self.begin()
        self.exchanges, self.stats, self._is_kept_private = (), [], False

    async def close(self) -> None:
        await self._session.aclose()

    def replace_transcript(self, exchanges: Transcript) -> None:
        """Goes on from another one. A private conversation stays private."""
        self._is_kept_private = self.is_private
        self.exchanges = exchanges

    @property
    def system(self) -> str:
        """The system prompt of what is asked from now on. One that is set in private is private, though it stands
        before all that is."""
        return self._system

    @system.setter
    def system(self, system: str) -> None:
        if system != self._system:
            self._is_kept_private = self.is_private
        self._system = system

    @property
    def is_private(self) -> bool:
        """Whether nothing of what is asked goes to the server any more."""
        is_private = self._is_kept_private or self._router.is_private
        return is_private or any(each.private for each in answered(self.exchanges))

    @property
    def is_held(self) -> bool:
        """Whether a person wants no server."""
        return self._is_held

    @property
    def offline(self) -> OfflineOptions:
        return self._offline

    @offline.setter
    def offline(self, offline: OfflineOptions) -> None:
        self._offline = self._router.offline = offline

    def hold(self) -> None:
        """Answers without the server until `release`. Raises MisuseError if nothing drafts."""
        if not self._policy.drafts:
            raise MisuseError(f"the policy {self._policy.name} drafts nothing, so nothing would be written offline")
        self._is_held = True
        self._router.hold()

    def release(self) -> None:
        self._is_held = False
        self._router.release()

    def cancel(self) -> None:
        self._router.cancel()

    def retry_now(self) -> None:
        self._router.retry_now()

    async def ask(
        self, question: str, options: AnswerOptions, on_tokens: TokenListener, on_link_change: "LinkListener"
    ) -> Answer:
        """The answer, as much of it as came, which is part of the transcript from now on.

        Raises OutriderError as a router does, and TooLongError; then the question may be asked again.
        """
        exchange = Exchange(question, private=self.is_private)
        return await self._say(answered(self.exchanges), exchange, options, on_tokens, on_link_change)

    async def ask_again(
        self, options: AnswerOptions, on_tokens: TokenListener, on_link_change: "LinkListener"
    ) -> Answer:
        """Another answer to the last question; the one before stays if no other came. Raises as `ask` does, and
        MisuseError if nothing was asked."""
        if not self.exchanges:
            raise MisuseError("nothing was asked yet")
        return await self._say(self.exchanges[:-1], self.exchanges[-1], options, on_tokens, on_link_change)

    @property
    def unverified(self) -> list[int]:
        """Which exchanges end in what no target has judged, and are built upon by none that is judged."""
        found: list[int] = []
        for at, each in reversed(list(enumerate(self.exchanges))):
            if each.answer is not None and (each.confirmed or each.private):
                break
            found += [] if each.answer is None else [at]
        return found[::-1]

    async def verify(
        self, at: int, options: AnswerOptions, on_tokens: TokenListener, on_link_change: "LinkListener"
    ) -> Answer:
        """Has exchange `at` of those that are unverified answered again, with what was drafted offered to the target.

        What was asked before it was asked then, under the system prompt of then; `options` and the system prompt of
        now if that is not known. An answer that is not whole changes nothing. Raises as `ask` does.
        """
        exchange = self.exchanges[at]
        drafted = exchange.drafted or DraftedAnswer((), options, self.system)
        before = self.exchanges[:at]
        answer = await self._answer(before, exchange.question, drafted, on_tokens, on_link_change)
        if answer.finish_reason in _WHOLE:
            self.exchanges = (*before, self._exchange(exchange, answer, drafted), *self.exchanges[at + 1 :])
        return answer

    async def _say(
        self,
        before: Transcript,
        exchange: Exchange,
        options: AnswerOptions,
        on_tokens: TokenListener,
        on_link_change: "LinkListener",
    ) -> Answer:
        """Asks what the exchange asks; if no answer comes, it stays as it is."""
        seen: list[int] = []
        asked = DraftedAnswer((), options, self.system)

        def see(committed: Sequence[int], provisional: Sequence[int]) -> None:
            seen.extend(committed)
            on_tokens(committed, provisional)

        self.exchanges = (*before, exchange)
        try:
            answer = await self._answer(before, exchange.question, asked, see, on_link_change)
        except asyncio.CancelledError:  # a person waits no longer
            if seen:
                self.exchanges = (*before, Exchange(exchange.question, self._text(seen, options)))
            raise
        self.exchanges = (*before, self._exchange(exchange, answer, asked))
        return answer

    async def _answer(
        self,
        before: Iterable[Exchange],
        question: str,
        asked: DraftedAnswer,
        on_tokens: TokenListener,
        on_link_change: "LinkListener",
    ) -> Answer:
        prompt = chat_prompt(self._client.tokenizer, messages(before, question, asked.system))
        tokens, context = len(prompt.tokens), self._client.description.context
        if tokens >= context:
            raise TooLongError(tokens, context)
        if self._is_kept_private:
            prompt = SplitPrompt((), prompt.tokens)
        try:
            settings = asked.options.settings()
            answer = await self._router.answer(prompt, settings, on_tokens, on_link_change, asked.tokens)
        finally:
            # One that failed answers nothing more, so that what comes next goes to another.
            if not self._router.is_sound:
                await self.begin()
        self.stats.append(answer.stats)
        return answer

    def _exchange(self, before: Exchange, answer: Answer, asked: DraftedAnswer) -> Exchange:
        tokens = (*answer.tokens, *answer.provisional)
        text = self._text(tokens, asked.options)
        if not text and answer.finish_reason not in _WHOLE:
            return before
        exchange = Exchange(before.question, text, private=self.is_private)
        if answer.private or not (answer.provisional or answer.finish_reason == OFFLINE):
            return exchange
        return replace(exchange, confirmed=False, drafted=replace(asked, tokens=tokens))

    def _text(self, tokens: Sequence[int], options: AnswerOptions) -> str:
        """What a person has read of it, which is what the target will read."""
        text = answer_text(self._client.tokenizer, self._client.description.end_tokens, tokens)
        return before_stop(text, options.stop)
