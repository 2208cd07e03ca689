"""`outrider chat`'s end of the socket: a client whose conversations a running `outrider serve` holds.

Text, transcripts and settings stay with the chat; tokens cross the socket. When the connection is lost, the draft is
loaded in this process and the chat goes on. Imports neither torch, transformers nor grpc before that.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from client.answer import Answer, TokenListener
from client.answering import require_idle, require_rule
from client.cache.tokenizers import read_kept
from client.chat.chat_session import ChatClient, ChatRouter
from client.drafting.policies import Policy
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.local_serve import messages
from client.local_serve.messages import AsyncConnection, BlockingConnection, ConnectionLostError, Declined
from client.local_serve.request import RequestOptions, loaded_here_line, send_request
from client.private.spans import SplitPrompt
from client.stats import Meter, Stats, per
from common.protocol.errors import OutriderError
from common.protocol.messages import Settings
from common.rpc.description import ServerDescription

if TYPE_CHECKING:
    from client.link.reconnecting_stream import LinkListener
    from common.models.tokenizer import Tokenizer

GONE = "the running `outrider serve` is gone"

Load = Callable[[], Awaitable[ChatClient]]


@dataclass(frozen=True, slots=True)
class _OpenedChat:
    connection: BlockingConnection
    begun: messages.ChatBegun


def chat_client_of_serve(
    cache: Path | None, server: str, options: RequestOptions, load: Load
) -> "SocketChatClient | Declined":
    """A client whose conversations a running `outrider serve` of this user holds, otherwise why none does. `load` makes
    a client in this process."""

    def open_chat() -> _OpenedChat | Declined:
        connection = send_request(cache, server, options, question=None)
        if isinstance(connection, Declined):
            return connection
        with suppress(ConnectionLostError):
            begun = connection.receive()
            if isinstance(begun, messages.ChatBegun):
                connection.socket.settimeout(None)
                return _OpenedChat(connection, begun)
        connection.close()
        return Declined("")

    opened = open_chat()
    if isinstance(opened, Declined):
        return opened
    tokenizer = read_kept(Path(opened.begun.tokenizer))
    if tokenizer is None:
        opened.connection.close()
        return Declined("")
    return SocketChatClient(opened, tokenizer, open_chat, load)


class SocketChatClient:
    """As `Client`, as far as a chat needs it. `open_chat` opens another connection."""

    def __init__(
        self, opened: _OpenedChat, tokenizer: "Tokenizer", open_chat: Callable[[], _OpenedChat | Declined], load: Load
    ):
        self.description = _description(opened.begun)
        self.draft, self.was_reached = opened.begun.draft, opened.begun.was_reached
        self.hung_up_by = ""
        self.tokenizer = tokenizer
        self._unused: _OpenedChat | None = opened
        self._open_chat = open_chat
        self._load = load
        self._loaded: ChatClient | None = None
        self._declined = Declined(GONE)

    def require_rule(self, rule: str) -> None:
        """As `Client.require_rule`."""
        require_rule(rule, self.description.rules)

    def require_idle(self, idle: str) -> None:
        """As `Client.require_idle`."""
        require_idle(idle, self.description.idle_policies)

    def load_routers(self, policy: Policy) -> Callable[[OfflineOptions], AbstractAsyncContextManager[ChatRouter]]:
        """As `Client.load_routers`, but nothing is loaded."""

        @asynccontextmanager
        async def opened(offline: OfflineOptions) -> AsyncIterator[ChatRouter]:
            async with AsyncExitStack() as stack:
                router = _SocketChatRouter(self, policy, offline, stack)
                stack.callback(router.disconnect)
                yield router

        return opened

    def close(self) -> None:
        """Closes a connection that was never used."""
        if self._unused is not None:
            self._unused.connection.close()

    async def connected(self) -> AsyncConnection | None:
        """A connection with a new conversation; None if no running `outrider serve` offers one."""
        opened, self._unused = self._unused, None
        if opened is None and self._loaded is None:
            another = await asyncio.to_thread(self._open_chat)
            if isinstance(another, Declined):
                self._declined = another if another.reason else Declined(GONE)
            else:
                opened = another
        if opened is None:
            return None
        try:
            _check_same(self.description, _description(opened.begun))
        except OutriderError:
            opened.connection.close()
            raise
        detached = opened.connection.detach()
        return AsyncConnection(*await asyncio.open_unix_connection(sock=detached, limit=messages.LONGEST_LINE_BYTES))

    async def loaded(self) -> ChatClient:
        """A client in this process, used for everything from now on. Raises OutriderError if it cannot be loaded."""
        if self._loaded is None:
            client = await self._load()
            _check_same(self.description, client.description)
            self._loaded = client
            sys.stderr.write(loaded_here_line(self._declined) + "\n")
            sys.stderr.flush()
        return self._loaded


class _SocketChatRouter:
    """A `ChatRouter` on a connection to a running `outrider serve`; when none is left, on a client in this process.

    Once a prompt was private, later ones are private on another connection too.
    """

    def __init__(self, client: SocketChatClient, policy: Policy, offline: OfflineOptions, stack: AsyncExitStack):
        self._client = client
        self._policy = policy
        self._offline = offline
        self._stack = stack
        self._connection: AsyncConnection | None = None
        self._local: ChatRouter | None = None
        self._is_private = False
        self._is_held = False
        self._is_cancelled = False

    @property
    def is_private(self) -> bool:
        return self._is_private or (self._local is not None and self._local.is_private)

    @property
    def is_sound(self) -> bool:
        return self._local is None or self._local.is_sound

    @property
    def offline(self) -> OfflineOptions:
        return self._offline

    @offline.setter
    def offline(self, offline: OfflineOptions) -> None:
        self._offline = offline
        if self._local is not None:
            self._local.offline = offline

    def hold(self) -> None:
        self._is_held = True
        if self._local is not None:
            self._local.hold()

    def release(self) -> None:
        self._is_held = False
        if self._local is not None:
            self._local.release()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._local is not None:
            self._local.cancel()
        elif self._connection is not None:
            self._connection.send(messages.ChatCancel())

    def retry_now(self) -> None:
        if self._local is not None:
            self._local.retry_now()
        elif self._connection is not None:
            self._connection.send(messages.ChatRetry())

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
        """As `PrivacyRouter.answer`. If the connection is lost before any token was final, a client in this process
        answers."""
        self._is_cancelled = False
        if self._local is None:
            try:
                return await self._ask(prompt, settings, on_tokens, on_link_change, offered)
            except ConnectionLostError:
                self._is_private |= prompt.private is not None
                on_tokens((), ())  # drafts that were shown will not be confirmed
                on_link_change(LinkState.ONLINE)
            self._local = await self._load()
        if self._is_cancelled:
            raise OutriderError(f"{GONE}; ask again")
        return await self._local.answer(self._kept_private(prompt), settings, on_tokens, on_link_change, offered)

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
        """Raises ConnectionLostError if no token of the answer is final by then, and what `PrivacyRouter.answer` raises
        at the other end."""
        if self._connection is None:
            self._connection, prompt = await self._client.connected(), self._kept_private(prompt)
        if self._connection is None:
            raise ConnectionLostError
        meter, committed, is_sound = Meter(time.perf_counter), list[int](), False
        try:
            self._connection.send(self._message(prompt, settings, offered))
            if self._is_cancelled:
                self._connection.send(messages.ChatCancel())
            while True:
                match await self._connection.receive():
                    case messages.ChatTokens(new, provisional):
                        if new:
                            meter.committed()
                        committed += new
                        on_tokens(new, provisional)
                    case messages.ChatLink(state):
                        on_link_change(LinkState(state))
                    case messages.ChatEnd(is_private, is_sound) as end:
                        self._is_private |= is_private
                        break
                    case _:
                        raise ConnectionLostError
        except ConnectionLostError:
            if not committed:  # always so if the prompt is private
                raise
            return _broken_off(committed, meter, self._client.draft, settings.rule)
        except BaseException:
            self._is_private |= prompt.private is not None
            raise
        finally:
            if not is_sound:
                self.disconnect()
        return _answer(end)

    def _message(self, prompt: SplitPrompt, settings: Settings, offered: Sequence[int]) -> messages.ChatPrompt:
        is_live = sys.stdout.isatty()
        offline, held = asdict(self._offline), self._is_held
        return messages.ChatPrompt(prompt.safe, prompt.private, asdict(settings), offered, offline, held, is_live)


def _answer(end: messages.ChatEnd) -> Answer:
    """Raises OutriderError if there is none."""
    if end.failed is not None:
        raise messages.AnswerFailed(**end.failed).error()
    fields = end.answer or {}
    tokens = {name: tuple(fields[name]) for name in ("tokens", "provisional")}
    return Answer(**{**fields, **tokens, "stats": Stats(**fields["stats"])})


def _broken_off(tokens: Sequence[int], meter: Meter, draft: str, rule: str) -> Answer:
    """What is known of an answer whose end did not arrive."""
    seconds = meter.elapsed()
    stats = Stats(
        tokens=len(tokens),
        seconds=seconds,
        tokens_per_second=per(len(tokens), seconds),
        ttft_seconds=meter.ttft,
        draft=draft,
        rule=rule,
    )
    return Answer(tuple(tokens), "error", stats, failure=f"{GONE}; ask again")


def _description(begun: messages.ChatBegun) -> ServerDescription:
    described = begun.description.items()
    fields: messages.Fields = {name: tuple(each) if isinstance(each, list) else each for name, each in described}
    return ServerDescription(**fields)


def _check_same(before: ServerDescription, now: ServerDescription) -> None:
    """Raises OutriderError for a server with another target."""
    if before.fingerprint != now.fingerprint:
        raise OutriderError("the server has another target now; /save the conversation, and begin another chat")
