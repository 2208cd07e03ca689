"""Which tokens an OpenAI stream may emit, where emitted text cannot be retracted: committed ones, and once the link is
gone for good also the draft's own.

Knows tokens, text and the state of the link. It may not know HTTP.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from client.endpoint.answer_parsers.pieces import AnswerParser, Piece, ScoredToken, TextPiece, ToolCall
from client.endpoint.token_scores import LogprobsOf, Spell, TokenScores
from client.link.link_state import LinkState
from client.stops import TextBeforeStop
from client.text import IncrementalText

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

GRACE_S = 1.0
"""For how long a link may be gone before it counts as gone, and longer where a conversation has to be sent anew: a
server that restarts is back by then."""

Emit = Callable[[Piece], None]

Accept = Callable[[int], Sequence[int]]
"""Makes so many provisional tokens final while the link is lost, and returns those that it could."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """What becomes of an answer's text: it ends before the first of the `stops`, `shown` are special tokens that are
    text, `ends` end tokens, which are none, `parser` makes pieces of it, and it ends with its first call where
    `has_one_call`. `spell` says what tokens stand for, where their log-probabilities are wanted. `before` are the
    tokens of the prompt that `before_answer` chooses."""

    stops: Sequence[str]
    parser: AnswerParser
    shown: Mapping[int, str]
    ends: Collection[int]
    has_one_call: bool = False
    spell: Spell | None = None
    before: Sequence[int] = ()


class StreamEmitter:
    """A conversation's token listener. `on_link_gone` is called once the server has not answered for the grace time;
    from then on drafted text is emitted too, as far as `accept` allows. `on_stop` is called when the text has ended and
    the server does not know: with a stop string in drafted text, with one in which special tokens stand, which only
    the server reads, or with the only call that is wanted. `upload_s` says by how many seconds the server may answer
    later for what is being sent to it."""

    def __init__(
        self,
        tokenizer: "Tokenizer",
        form: TextForm,
        emit: Emit,
        accept: Accept,
        on_link_gone: Callable[[], None],
        on_stop: Callable[[], None],
        logprobs_of: LogprobsOf,
        upload_s: Callable[[], float],
    ):
        self.text = ""  # before the parser
        self.pieces: list[Piece] = []
        self.tokens = 0  # emitted, but for those behind a stop string or an end by a call
        self.unverified = 0  # of them, those that the target has not verified
        self.first_at: float | None = None  # when the first token came, in seconds of `time.monotonic`
        self._decoded = IncrementalText(tokenizer, form.ends, form.shown, form.before)
        self._characters = 0  # decoded
        self._scores = TokenScores(form.spell, logprobs_of)
        self._before_stop = TextBeforeStop(form.stops)
        self._parser = form.parser
        self._has_one_call, self._has_called = form.has_one_call, False
        self._emit, self._accept = emit, accept
        self._on_link_gone, self._on_stop, self._upload_s = on_link_gone, on_stop, upload_s
        self._provisional: tuple[int, ...] = ()
        self._is_gone = False
        self._grace: asyncio.TimerHandle | None = None
        self._grace_ends_at: float | None = None  # of the present outage

    @property
    def stopped(self) -> bool:
        """Whether a stop string came, or the only call that is wanted."""
        return self._before_stop.stopped or self._has_called

    def __call__(self, committed: Sequence[int], provisional: Sequence[int]) -> None:
        self._provisional = tuple(provisional)
        if committed and self._before_stop.stopped:  # the server reads special tokens too, and has seen no stop string
            self._on_stop()
        self._emit_tokens(committed, unverified=False)
        self._emit_drafted()

    def link_changed(self, state: LinkState) -> None:
        if state is LinkState.ONLINE:
            self._is_gone = False
            self._end_grace()
        elif state is LinkState.OFFLINE and not self._is_gone:
            now = asyncio.get_running_loop().time()
            if self._grace_ends_at is None:
                self._grace_ends_at = now + GRACE_S
            self._wait_until(max(now, self._grace_ends_at))  # and no longer for what a stream that is lost has carried

    def emit_unverified(self, tokens: Sequence[int]) -> None:
        """Emits tokens that the target will never verify, behind all others."""
        self.unverified += self._emit_tokens(tokens, unverified=True)

    def ignore_link(self) -> None:
        """The state of the link matters no more."""
        self._end_grace()

    def end(self, *, is_cut: bool) -> None:
        """No more will come; `is_cut` if the text did not end by itself."""
        rest = self._before_stop.append(self._decoded.flush()) + self._before_stop.flush()
        self._emit_text(rest, unverified=self.unverified > 0)
        self._emit_pieces(self._parser.end(is_cut=is_cut or self.stopped), unverified=self.unverified > 0)

    def append_note(self, note: str) -> None:
        """Words for a person that belong to no answer, behind the end of one that has text of the draft's own."""
        if note and any(isinstance(piece, TextPiece) and piece.unverified for piece in self.pieces):
            self._emit_pieces([TextPiece(note)], unverified=True)

    def take_scored(self) -> tuple[ScoredToken, ...]:
        """The tokens of emitted text that no piece has had: at the end, those of calls."""
        return self._scores.take(len(self.text))

    def _wait_until(self, time_s: float) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._grace = asyncio.get_running_loop().call_at(time_s, self._give_up)

    def _give_up(self) -> None:
        assert self._grace_ends_at is not None
        uploaded_at = self._grace_ends_at + self._upload_s()
        if uploaded_at > asyncio.get_running_loop().time():
            self._wait_until(uploaded_at)
            return
        self._is_gone = True
        self._on_link_gone()
        self._emit_drafted()

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._grace_ends_at = None

    def _emit_drafted(self) -> None:
        if not (self._is_gone and self._provisional):
            return
        accepted = self._accept(len(self._provisional))
        self._provisional = self._provisional[len(accepted) :]
        self.emit_unverified(accepted)
        if self.stopped:
            self._on_stop()

    def _emit_tokens(self, tokens: Sequence[int], *, unverified: bool) -> int:
        """How many of them there are up to the one that ends the text."""
        if tokens and self.first_at is None:
            self.first_at = time.monotonic()
        before, text = self.tokens, ""
        for token in tokens:
            if self.stopped:
                break
            self.tokens += 1
            self._scores.add(token, self._characters)
            decoded = self._decoded.commit([token])
            self._characters += len(decoded)
            text += self._before_stop.append(decoded)
            if self._has_one_call:  # with which the answer may end
                self._emit_text(text, unverified=unverified)
                text = ""
        emitted = self.tokens - before
        self._emit_text(text, unverified=unverified)
        return emitted

    def _emit_text(self, text: str, *, unverified: bool) -> None:
        if text:
            self.text += text
            self._emit_pieces(self._parser.feed(text), unverified=unverified)

    def _emit_pieces(self, pieces: Sequence[Piece], *, unverified: bool) -> None:
        for piece in pieces:
            if self._has_called:
                return
            assert not (unverified and isinstance(piece, ToolCall)), "a call was made of unverified text"
            marked = piece
            if isinstance(piece, TextPiece):
                marked = replace(piece, unverified=unverified, scored=self.take_scored())
            self.pieces.append(marked)
            self._emit(marked)
            if isinstance(piece, ToolCall) and self._has_one_call:
                self._has_called = True
                self._on_stop()
