"""Routes each prompt of a conversation: over the link until the first one with private text, from then on to the draft
on this machine alone.

The asyncio shell around `DraftOnlyDecoding`, beside `Conversation`. May know both and what of a prompt is private; it
may not know text or screens. Private tokens never reach a session: the link is ended before the first is looked at.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from client.answer import Answer, TokenListener
from client.conversation import Conversation
from client.drafting.loop import ONE_TOKEN
from client.drafting.pace import DetachedDrafter, Levels
from client.drafting.repetition import STOPPED
from client.link.offline import OfflineOptions
from client.link.reconnecting_stream import LinkListener, ignore_link_changes
from client.private.draft_only import REPETITION, AnswerBounds, DraftOnlyDecoding
from client.private.spans import SplitPrompt
from client.stats import Meter, Stats
from common.clock import Clock
from common.protocol.checks import prompt_fault
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import FinishReason, Settings, State
from common.rpc.traffic import Traffic

_STATE_ONLY = Settings(max_new_tokens=0)
"""Asks for draft state and no answer, and so reveals nothing of the answer's settings."""

_FETCH_TIMEOUT_S = 5.0
"""For the draft state of the safe text; then the server is told to end the turn."""
_CANCEL_TIMEOUT_S = 1.0
"""For its answer to that, after which nothing is expected of it."""

_WITHOUT_STATE = "the draft model wrote without the target's draft state of the text that is not private"
_LATE = "it came too late"


@dataclass(frozen=True, slots=True)
class _Fetch:
    """What it took to get the safe text's draft state."""

    traffic: Traffic = Traffic()  # noqa: RUF009
    rtt_ms: float = 0.0
    reconnects: int = 0
    note: str = ""


class PrivacyRouter:
    """Answers by `conversation` up to the first prompt with private text, and from there on by its drafter."""

    def __init__(self, conversation: Conversation, bounds: AnswerBounds, clock: Clock = time.perf_counter):
        self._conversation = conversation
        self._bounds = bounds
        self._clock = clock
        self._detached: DetachedDrafter | None = None
        self._states: Sequence[State] = ()  # that the drafter has not seen
        self._abandoned = False

    async def answer(
        self,
        prompt: SplitPrompt,
        settings: Settings,
        on_tokens: TokenListener,
        on_link_change: LinkListener = ignore_link_changes,
        offered: Sequence[int] = (),
    ) -> Answer:
        """The answer that follows the prompt. `offered` was drafted for it before and is to be verified now, which only
        a server can do.

        Raises OutriderError as a conversation does, MisuseError for a prompt that is too long to be answered or if
        nothing drafts here. What a listener raises is raised.
        """
        self._abandoned = False
        too_long = prompt_fault(len(prompt.tokens), self._bounds.context)
        if too_long:
            raise MisuseError(too_long)
        if self._detached is None and prompt.private is None:
            return await self._conversation.answer(prompt.tokens, settings, on_tokens, on_link_change, offered)
        meter, fetch = Meter(self._clock), _Fetch()
        if self._detached is None:
            fetch = await self._fetch_state_and_detach(prompt.safe, on_link_change)
        return await self._decode(prompt, settings, on_tokens, meter, fetch)

    @property
    def is_private(self) -> bool:
        """Whether nothing is sent to the server any more."""
        return self._detached is not None

    @property
    def is_sound(self) -> bool:
        """Whether it can answer again as well as it did at first, as far as a server is asked."""
        return self.is_private or self._conversation.is_sound

    @property
    def offline(self) -> OfflineOptions:
        return self._conversation.offline

    @offline.setter
    def offline(self, offline: OfflineOptions) -> None:
        self._conversation.offline = offline

    def hold(self) -> None:
        """From the next answer on no server is waited for, until `release`."""
        self._conversation.hold()

    def release(self) -> None:
        """The next answer tries the server at once."""
        self._conversation.release()

    def cancel(self) -> None:
        """Stops the answer that is being made, if any."""
        self._abandoned = True
        self._conversation.cancel()

    def retry_now(self) -> None:
        """Tries a lost server at once, if it is still wanted."""
        self._conversation.retry_now()

    async def _fetch_state_and_detach(self, safe: Sequence[int], on_link_change: LinkListener) -> _Fetch:
        """Fetches the draft state of the safe text, if the drafter wants any, and ends the link."""
        conversation = self._conversation
        if not conversation.drafts:
            raise MisuseError(
                "private text is answered by a draft model alone, and this policy has none; choose another"
            )
        before, fetch = conversation.traffic, _Fetch()
        deadline = asyncio.get_running_loop().call_later(_FETCH_TIMEOUT_S, conversation.cancel)
        try:
            if safe and conversation.wants_state:
                async with asyncio.timeout(_FETCH_TIMEOUT_S + _CANCEL_TIMEOUT_S):
                    answer = await conversation.answer(safe, _STATE_ONLY, _ignore_tokens, on_link_change)
                fetch = _fetch_of(answer, was_enough=self._abandoned)
        except TimeoutError:
            fetch = _Fetch(note="" if self._abandoned else f"{_WITHOUT_STATE}: {_LATE}")
        except OutriderError as error:
            fetch = _Fetch(note=f"{_WITHOUT_STATE}: {error}")
        finally:
            deadline.cancel()
            fetch = replace(fetch, traffic=conversation.traffic.since(before))
            self._detached = conversation.detach_drafter()
            self._states = self._detached.states
        return fetch

    async def _decode(
        self, prompt: SplitPrompt, settings: Settings, on_tokens: TokenListener, meter: Meter, fetch: _Fetch
    ) -> Answer:
        assert self._detached is not None
        drafter, before = self._detached.drafter, self._detached.drafter.levels
        decoding, failure = DraftOnlyDecoding(prompt.safe, prompt.private or (), settings, self._bounds), ""
        while decoding.reason is None:
            if self._abandoned:
                decoding.stop()
                break
            try:
                proposals = await drafter.draft(decoding.view(), self._states, ONE_TOKEN)
            except Exception as error:  # whatever a model raises
                failure = (
                    f"the drafter failed ({str(error) or type(error).__name__}), and nobody else may see the prompt"
                )
                break
            self._states = ()
            decoding.take(proposals)
            on_tokens((), decoding.run)
        reason = "error" if failure else str(decoding.reason)
        stats = self._stats(decoding.run, settings, meter, fetch)
        levels: Levels = drafter.levels.since(before)
        note = "; ".join(filter(None, (fetch.note, STOPPED if reason == REPETITION else "")))
        return Answer((), reason, stats, decoding.run, levels.drafted, levels.overrun, failure, note, private=True)

    def _stats(self, run: Sequence[int], settings: Settings, meter: Meter, fetch: _Fetch) -> Stats:
        """The stats of an answer without any pass."""
        assert self._detached is not None
        return Stats(
            seconds=meter.elapsed(),
            ttft_seconds=meter.ttft,
            bytes_up=fetch.traffic.up,
            bytes_down=fetch.traffic.down,
            rtt_ms=fetch.rtt_ms,
            provisional_tokens=len(run),
            reconnects=fetch.reconnects,
            draft=self._detached.draft_name,
            rule=settings.rule,
            state_bytes=fetch.traffic.state,
        )


def _fetch_of(answer: Answer, *, was_enough: bool) -> _Fetch:
    """`was_enough`: a person stopped it."""
    is_late = answer.finish_reason == FinishReason.CANCELLED
    why = answer.failure or (_LATE if is_late else "the server was out of reach")
    note = "" if answer.finish_reason == FinishReason.LENGTH or was_enough else f"{_WITHOUT_STATE}: {why}"
    return _Fetch(rtt_ms=answer.stats.rtt_ms, reconnects=answer.stats.reconnects, note=note)


def _ignore_tokens(committed: Sequence[int], provisional: Sequence[int]) -> None:
    """No text comes while state is fetched."""
