"""One answer on one conversation: what is emitted of it, what ends it while the link is gone, and what came of it.

Knows conversations and the emitter; it may not know requests, HTTP or the pool.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from client.answer import OFFLINE, Answer, TokenListener
from client.answering import AnswerOptions
from client.assembly import Client
from client.conversation import Conversation
from client.endpoint.answer_parsers.pieces import ToolCall
from client.endpoint.faults import FaultError, broken_off, refused, unreachable, wrong
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.stream_emitter import Emit, StreamEmitter, TextForm
from client.errors import ServerRefusedError
from client.link.link_state import LinkState
from client.link.reconnecting_stream import LinkListener
from client.private.draft_only import SPENT
from client.private.router import PrivacyRouter
from client.private.spans import SplitPrompt
from common.protocol.constraint import Constrain
from common.protocol.errors import MisuseError, OutriderError, PeerError
from common.protocol.messages import Constraint, FinishReason
from common.rpc.errors import LinkError, UnauthorizedError

_RETRY_SECONDS = 5
_CANCEL_SECONDS = 5.0  # for the server to confirm that an answer is over
_CALLED = "tool_calls"
_CUT = "the server did not come back in time: the answer is not whole"


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that is asked for. `is_verified`: nothing that the draft writes alone may be in it. `offline_note` ends
    one in which there is such text. `unheeded` names parameters of the request that have no effect on it. `opening` is
    the mark of thinking with which the prompt ends, if it does."""

    prompt: SplitPrompt
    options: AnswerOptions
    form: TextForm
    is_verified: bool
    echo: str = ""
    offline_note: str = ""
    unheeded: tuple[str, ...] = ()
    opening: str = ""


class AnswerOnConversation:
    """One answer of a client on one of its conversations."""

    def __init__(
        self, client: Client, conversation: Conversation, choice: Choice, emit: Emit, on_link_change: LinkListener
    ):
        self._client = client
        self._conversation = conversation
        self._router = client.privacy_router(conversation)
        self._prompt, self._options, self._is_verified = choice.prompt, choice.options, choice.is_verified
        self._offline_note = choice.offline_note
        self._on_link_change = on_link_change
        self._began = time.monotonic()
        accept = _accept_nothing if self._is_verified else conversation.accept_unverified
        self._emitter = StreamEmitter(
            client.tokenizer,
            choice.form,
            emit,
            accept,
            self._link_is_gone,
            conversation.cancel,
            conversation.logprobs_of,
            conversation.upload_s,
        )

    async def answer(self) -> FinishedAnswer:
        """Raises FaultError if nothing comes of it, or not all of it. Whoever is cancelled here ends the answer on the
        server too."""
        on_tokens = self._emit_tokens if self._prompt.private is None else self._emit_private
        try:
            async with compiled(self._client.constrain, self._options.constraint):
                answer = await to_its_end(self._router, self._prompt, self._options, on_tokens, self._link_changed)
        finally:
            self._emitter.ignore_link()
        return self._finish(answer)

    def _link_changed(self, state: LinkState) -> None:
        self._on_link_change(state)
        self._emitter.link_changed(state)

    def _link_is_gone(self) -> None:
        if self._is_verified and not self._emitter.text:
            self._conversation.cancel()

    def _emit_tokens(self, committed: Sequence[int], run: Sequence[int]) -> None:
        if committed:
            # Only a server commits: another conversation may have lost the link, which this one never did.
            self._on_link_change(LinkState.ONLINE)
        self._emitter(committed, run)

    def _emit_private(self, _: Sequence[int], run: Sequence[int]) -> None:
        """What the draft writes of a private prompt is all that there will be."""
        self._emitter.emit_unverified(run[self._emitter.unverified :])
        if self._emitter.stopped:  # where the draft alone sees no stop string, as with special tokens in it
            self._router.cancel()

    def _finish(self, answer: Answer) -> FinishedAnswer:
        if self._is_verified and self._is_cut(answer):
            raise unreachable(_RETRY_SECONDS)
        if answer.failure:
            raise FaultError(broken_off(answer.failure))
        if not answer.private and not self._is_verified:
            self._emitter.emit_unverified(answer.provisional)
        tokens = (*answer.tokens, *answer.provisional)
        self._emitter.end(is_cut=not self._ended_by_itself(answer, tokens))
        if self._is_cut(answer) and not self._emitter.text:
            raise unreachable(_RETRY_SECONDS)
        if not answer.private:
            self._emitter.append_note(self._offline_note)
        is_unfinished = answer.finish_reason == OFFLINE and not self._is_whole(answer, tokens)
        note = "; ".join(filter(None, (_CUT if is_unfinished else "", answer.note)))
        keeps_unverified = self._emitter.unverified > 0 and not answer.private
        about: dict[str, Any] = {
            "private": answer.private,
            "lossy": answer.is_lossy(by_rule=self._options.lossy) or keeps_unverified,
            "seed": self._options.seed,
            "stats": answer.stats.as_dict(),
        }
        return FinishedAnswer(
            tuple(self._emitter.pieces),
            self._reason(answer, tokens),
            self._emitter.tokens if self._emitter.stopped else len(tokens),
            self._emitter.unverified,
            {**about, "note": note} if note else about,
            self._emitter.take_scored(),
            *self._durations(),
        )

    def _is_cut(self, answer: Answer) -> bool:
        """Whether the link or a cancellation ended it before it was whole. It may be whole without the server's word,
        which the link can lose."""
        return answer.finish_reason in (OFFLINE, FinishReason.CANCELLED) and not self._is_whole(answer, answer.tokens)

    def _is_whole(self, answer: Answer, tokens: Sequence[int]) -> bool:
        is_full = len(tokens) >= self._options.max_new_tokens
        return is_full or self._emitter.stopped or self._ended_by_itself(answer, tokens)

    def _durations(self) -> tuple[float, float]:
        """How long the first token was waited for, and how long ago it came."""
        now = time.monotonic()
        first_at = now if self._emitter.first_at is None else self._emitter.first_at
        return first_at - self._began, now - first_at

    def _ended_by_itself(self, answer: Answer, tokens: Sequence[int]) -> bool:
        is_ended = bool(tokens) and tokens[-1] in self._client.description.end_tokens
        return is_ended or answer.finish_reason in (FinishReason.END, SPENT)

    def _reason(self, answer: Answer, tokens: Sequence[int]) -> str:
        """OpenAI's word for why the text ends where it does."""
        if not self._emitter.stopped and not self._ended_by_itself(answer, tokens):
            return FinishReason.LENGTH
        has_called = any(isinstance(piece, ToolCall) for piece in self._emitter.pieces)
        return _CALLED if has_called else FinishReason.END


@asynccontextmanager
async def compiled(constrain: Constrain, constraint: Constraint | None) -> AsyncIterator[None]:
    """While the block lasts, the constraint is compiled, however long the request has waited: a session, which compiles
    on the event loop, finds it so. Raises FaultError for one that cannot be compiled now."""
    if constraint is None:
        yield
        return
    try:
        held = await asyncio.to_thread(constrain, constraint)
    except PeerError as error:
        raise wrong(None, str(error)) from error
    try:
        yield
    finally:
        del held


async def to_its_end(
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
    except ServerRefusedError as error:
        if error.is_invalid:  # also where the server came back with lower limits
            raise wrong(None, str(error)) from error
        retry_after = math.ceil(error.retry_after) or _RETRY_SECONDS
        raise FaultError(refused(str(error), retry_after, over_quota=error.over_quota)) from error
    except LinkError as error:
        raise unreachable(_RETRY_SECONDS) from error
    except UnauthorizedError as error:  # whose app cannot give another token
        raise FaultError(broken_off(str(error))) from error
    except MisuseError as error:
        raise wrong(None, str(error)) from error
    except OutriderError as error:
        raise FaultError(broken_off(str(error))) from error


def _accept_nothing(_: int) -> Sequence[int]:
    return ()
