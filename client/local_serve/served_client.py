"""A chat's client whose conversations a running `outrider serve` holds: the chat's end of the socket.

Text, transcripts and settings stay with the chat; tokens cross the socket. Where the other end is gone, what it did is
loaded here, and the chat goes on. Imports neither torch, transformers nor grpc before that.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.answer import Answer, TokenListener
from client.answering import require_idle, require_rule
from client.cache.tokenizers import read_kept
from client.chat.chat_session import ChatClient, ChatRouter
from client.drafting.policies import Policy
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.local_serve.ask import Begun, Event, Options, begin, tell_loading
from client.local_serve.running import LONGEST_LINE_BYTES
from client.private.spans import SplitPrompt
from client.stats import Meter, Stats, per
from common.protocol.errors import MisuseError, OutriderError
from common.protocol.messages import Settings
from common.rpc.description import ServerDescription

if TYPE_CHECKING:
    from client.link.reconnecting_stream import LinkListener
    from common.models.tokenizer import Tokenizer

GONE = "the running `outrider serve` is gone"

Load = Callable[[], Awaitable[ChatClient]]


class _GoneError(Exception):
    """The other end is gone."""


def served_client(
    cache: Path | None, server: str, options: Options, loaded: Callable[[], None], load: Load
) -> "ServedClient | None":
    """None where no running `outrider serve` of this user can hold a chat's conversations, which one line says where it
    matters; `loaded` is called before that. `load` makes a client here."""

    def connect() -> Begun | str:
        return begin(cache, server, options, {"chat": True})

    begun = connect()
    if isinstance(begun, str):
        tell_loading(begun, loaded)
        return None
    tokenizer = read_kept(Path(begun.accepted["tokenizer"]))
    if tokenizer is None:
        begun.connection.close()
        return None
    return ServedClient(begun, tokenizer, connect, load)


class ServedClient:
    """As `Client`, as far as a chat needs it. `connect` asks for a connection once more."""

    def __init__(self, begun: Begun, tokenizer: "Tokenizer", connect: Callable[[], Begun | str], load: Load):
        self.description = _description(begun.accepted)
        self.draft: str = begun.accepted["draft"]
        self.was_reached: bool = begun.accepted["reached"]
        self.hitch = ""
        self.tokenizer = tokenizer
        self._begun: Begun | None = begun
        self._connect = connect
        self._load = load
        self._here: ChatClient | None = None

    def require_rule(self, rule: str) -> None:
        """As `Client.require_rule`."""
        require_rule(rule, self.description.rules)

    def require_idle(self, idle: str) -> None:
        """As `Client.require_idle`."""
        require_idle(idle, self.description.idle_policies)

    def load_routers(self, policy: Policy) -> Callable[[OfflineOptions], AbstractAsyncContextManager[ChatRouter]]:
        """As `Client.load_routers`, but that nothing is loaded."""

        @asynccontextmanager
        async def opened(offline: OfflineOptions) -> AsyncIterator[ChatRouter]:
            async with AsyncExitStack() as stack:
                router = _ServedRouter(self, policy, offline, stack)
                stack.callback(router.disconnect)
                yield router

        return opened

    def close(self) -> None:
        """Ends a connection that nobody has used."""
        if self._begun is not None:
            self._begun.connection.close()

    async def connected(self) -> "_Connection | None":
        """A conversation at the other end with nothing said yet; None where there is none to be had."""
        begun, self._begun = self._begun, None
        if begun is None and self._here is None:
            another = await asyncio.to_thread(self._connect)
            begun = None if isinstance(another, str) else another
        if begun is None:
            return None
        begun.events.close()
        try:
            _check_same(self.description, _description(begun.accepted))
        except OutriderError:
            begun.connection.close()
            raise
        reader, writer = await asyncio.open_unix_connection(sock=begun.connection, limit=LONGEST_LINE_BYTES)
        return _Connection(reader, writer)

    async def loaded(self) -> ChatClient:
        """A client here, from now on for everything. Raises OutriderError where it cannot be loaded."""
        if self._here is None:
            tell_loading(GONE)
            here = await self._load()
            _check_same(self.description, here.description)
            self._here = here
        return self._here


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer

    def say(self, message: Event) -> None:
        with suppress(OSError):  # which the next reading finds out
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Event:
        """Raises _GoneError where there is no more."""
        try:
            line = await self._reader.readline()
            event = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            event = None
        if not isinstance(event, dict):
            raise _GoneError
        return event

    def close(self) -> None:
        self._writer.close()


class _ServedRouter:
    """A `ChatRouter` on a connection to a running `outrider serve`, and once none is to be had on a client here.

    What was private stays so with another connection too: no prompt is safe any more.
    """

    def __init__(self, client: ServedClient, policy: Policy, offline: OfflineOptions, stack: AsyncExitStack):
        self._client = client
        self._policy = policy
        self._offline = offline
        self._stack = stack
        self._connection: _Connection | None = None
        self._here: ChatRouter | None = None
        self._is_private = False
        self._is_held = False
        self._is_cancelled = False

    @property
    def is_private(self) -> bool:
        return self._is_private or (self._here is not None and self._here.is_private)

    @property
    def is_sound(self) -> bool:
        return self._here is None or self._here.is_sound

    @property
    def offline(self) -> OfflineOptions:
        return self._offline

    @offline.setter
    def offline(self, offline: OfflineOptions) -> None:
        self._offline = offline
        if self._here is not None:
            self._here.offline = offline

    def hold(self) -> None:
        self._is_held = True
        if self._here is not None:
            self._here.hold()

    def release(self) -> None:
        self._is_held = False
        if self._here is not None:
            self._here.release()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._here is not None:
            self._here.cancel()
        elif self._connection is not None:
            self._connection.say({"cancel": True})

    def retry_now(self) -> None:
        if self._here is not None:
            self._here.retry_now()
        elif self._connection is not None:
            self._connection.say({"retry": True})

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    async def answer(
        self,
        prompt: SplitPrompt,
        settings: Settings,
        on_tokens: TokenListener,
        on_link_change: "LinkListener",
        offered: Sequence[int] = (),
    ) -> Answer:
        """As `PrivacyRouter.answer`. An answer whose other end goes before any of it was final is made here."""
        self._is_cancelled = False
        if self._here is None:
            try:
                return await self._ask(prompt, settings, on_tokens, on_link_change, offered)
            except _GoneError:
                self._is_private |= prompt.private is not None
                on_tokens((), ())  # drafts that were shown will not be confirmed
                on_link_change(LinkState.ONLINE)
            self._here = await self._load()
        if self._is_cancelled:
            raise OutriderError(f"{GONE}; ask again")
        return await self._here.answer(self._kept_private(prompt), settings, on_tokens, on_link_change, offered)

    async def _load(self) -> ChatRouter:
        if self._is_cancelled:
            raise OutriderError(f"{GONE}; ask again")
        client = await self._client.loaded()
        router = await self._stack.enter_async_context(client.load_routers(self._policy)(self._offline))
        if self._is_held:
            router.hold()
        return router

    def _kept_private(self, prompt: SplitPrompt) -> SplitPrompt:
        if self._is_private and prompt.private is None:
            return SplitPrompt((), prompt.tokens)
        return prompt

    async def _ask(
        self,
        prompt: SplitPrompt,
        settings: Settings,
        on_tokens: TokenListener,
        on_link_change: "LinkListener",
        offered: Sequence[int],
    ) -> Answer:
        """Raises _GoneError where the other end is gone and nothing of the answer is final, OutriderError as it does
        there."""
        if self._connection is None:
            self._connection, prompt = await self._client.connected(), self._kept_private(prompt)
        if self._connection is None:
            raise _GoneError
        meter, seen, is_kept = Meter(time.perf_counter), list[int](), False
        try:
            self._connection.say({"ask": self._question(prompt, settings, offered)})
            if self._is_cancelled:
                self._connection.say({"cancel": True})
            while True:
                match await self._connection.hear():
                    case {"tokens": committed, "run": provisional}:
                        if committed:
                            meter.committed()
                        seen += committed
                        on_tokens(committed, provisional)
                    case {"link": state}:
                        on_link_change(LinkState(state))
                    case {"is_private": is_private, "is_sound": is_kept, **outcome}:
                        self._is_private |= is_private
                        break
                    case _:
                        raise _GoneError
        except _GoneError:
            if not seen:  # as it is where the prompt is private
                raise
            return _broken_off(seen, meter, self._client.draft, settings.rule)
        except BaseException:
            self._is_private |= prompt.private is not None
            raise
        finally:
            if not is_kept:
                self.disconnect()
        return _answer(outcome)

    def _question(self, prompt: SplitPrompt, settings: Settings, offered: Sequence[int]) -> Event:
        return {
            "safe": prompt.safe,
            "private": prompt.private,
            "settings": asdict(settings),
            "offered": list(offered),
            "offline": asdict(self._offline),
            "held": self._is_held,
            "live": sys.stdout.isatty(),
        }


def _answer(outcome: Event) -> Answer:
    """Raises OutriderError where none came."""
    match outcome:
        case {"failed": sentence, "misuse": is_misuse}:
            raise (MisuseError if is_misuse else OutriderError)(sentence)
    said: dict[str, Any] = outcome["answer"]
    tokens = {name: tuple(said[name]) for name in ("tokens", "provisional")}
    return Answer(**{**said, **tokens, "stats": Stats(**said["stats"])})


def _broken_off(tokens: Sequence[int], meter: Meter, draft: str, rule: str) -> Answer:
    """What is known of an answer that nobody told the end of."""
    seconds = meter.elapsed()
    speed = per(len(tokens), seconds)
    stats = Stats(len(tokens), seconds, speed, meter.ttft, 0.0, 0, 0, 0, 0.0, 0, 0, 0, draft, rule)
    return Answer(tuple(tokens), "error", stats, failure=f"{GONE}; ask again")


def _description(accepted: Event) -> ServerDescription:
    said: Event = accepted["description"]
    read: Event = {name: tuple(each) if isinstance(each, list) else each for name, each in said.items()}
    return ServerDescription(**read)


def _check_same(before: ServerDescription, now: ServerDescription) -> None:
    """Raises OutriderError for a server whose tokens are others."""
    if before.fingerprint != now.fingerprint:
        raise OutriderError("the server has another target now; /save what was said, and begin another chat")
