"""`outrider serve`'s end of the socket: answers this user's `outrider run` and `outrider chat` with what is loaded.

Each question and each chat has a session of its own on the shared connection, so that every option of an answer counts
as in `outrider run`. What a drafter was loaded with cannot be changed; a request for another is declined.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client
from client.cache.bundles import choose_bundle
from client.cache.tokenizers import kept_file
from client.drafting.draft_loader import AUTO, DraftChoice
from client.drafting.policies import Policy
from client.endpoint.monitor import Monitor
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions, ignore_wait
from client.link.shared_connection import SharedConnection
from client.link.stream import Access
from client.local_serve import messages
from client.local_serve.chat_server import PROVISIONAL_INTERVAL_S, ChatServer
from client.local_serve.messages import AsyncConnection, ConnectionLostError, Fields
from client.local_serve.running import (
    Running,
    UnsafeError,
    announce,
    can_listen,
    is_own,
    own_version,
    prepare_socket,
    withdraw,
)
from client.one_answer import answer, prompt_of
from client.options.answers import AnswerFlags
from client.options.connection import Credentials
from client.options.outages import OfflineFlags
from client.private.spans import SplitPrompt
from client.provisional_pace import ProvisionalPace
from client.terminal.render import unreached_line, waiting_line
from client.text import Question
from common.address import written
from common.device import AUTO_DEVICE
from common.protocol.errors import OutriderError

_REQUEST_S = 10.0  # a client sends its request within this time
_COMPARED_APART = ("draft", "model", "stand_in")
"""Fields of a `DraftChoice` of which not only equal ones fit what is loaded."""

MakeDrafter = Callable[[], Any]


class _DeclinedError(Exception):
    """The client should load what it needs; the sentence is empty if the user does not have to know why."""


class _Slots:
    """How many requests are answered at once. A slot is reserved on the event loop, before anything is awaited."""

    def __init__(self, count: int):
        self._free = count

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Raises _DeclinedError if none is free."""
        if self._free < 1:
            raise _DeclinedError("the running `outrider serve` is full")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


@dataclass(frozen=True, slots=True)
class _Question:
    prompt: SplitPrompt
    options: AnswerOptions
    offline: OfflineOptions
    is_shown: bool
    is_live: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """What `outrider serve` runs on for one model; `make_drafter` is None if nothing drafts."""

    client: Client
    make_drafter: MakeDrafter | None
    shared_connection: SharedConnection
    monitor: Monitor
    choice: DraftChoice

    def drafter(self, policy: Policy) -> Any:
        return self.make_drafter() if self.make_drafter is not None and policy.drafts else None

    async def is_reached(self) -> bool:
        """False if the link is offline. It is probed first if it is not online or the connection is not ready, unless
        running answers or an open page watch it."""
        if self.monitor.link is not LinkState.ONLINE or not self.shared_connection.current.connection.is_ready:
            await self.monitor.refresh(max_age_s=0.0)
        return self.monitor.link is not LinkState.OFFLINE


class Listener:
    """Listens from `open` to `close`, on systems with Unix sockets. `loaded` are the models of one server, which its
    user reaches by `access`. At most `slots` questions of `outrider run` are answered at once, and beside them at most
    `slots` chats are open."""

    def __init__(self, loaded: Sequence[Loaded], access: Access, cache: Path, slots: int):
        self._loaded = {each.client.description.model: each for each in loaded}
        self._first = loaded[0].client
        self._access = access
        self._cache = cache
        self._slots = _Slots(slots)
        self._chat_slots = _Slots(slots)
        self._running: Running | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        if not can_listen():
            return
        try:
            path = prepare_socket(self._cache, os.getpid())
            self._running = Running(os.getpid(), own_version(), written(self._access.addresses), str(path))
            self._server = await asyncio.start_unix_server(self._accept, path, limit=messages.LONGEST_LINE_BYTES)
            path.chmod(0o600)
            announce(self._cache, self._running)
        except (OSError, UnsafeError):  # HTTP requests are answered all the same
            await self.close()

    async def close(self) -> None:
        if self._running is not None:
            withdraw(self._cache, self._running)
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = AsyncConnection(reader, writer)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            connection.close()

        # Python 3.11 prints a traceback where a task that it made for a connection itself is cancelled.
        task = asyncio.create_task(self._take(connection, writer))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _take(self, connection: AsyncConnection, writer: asyncio.StreamWriter) -> None:
        # The client may be gone, or speak another protocol.
        with suppress(TimeoutError, OSError, ConnectionLostError):
            if is_own(writer.get_extra_info("socket")):
                request = await asyncio.wait_for(connection.receive(), _REQUEST_S)
                if isinstance(request, messages.ServeRequest):
                    await self._serve(request, connection)

    async def _serve(self, request: messages.ServeRequest, connection: AsyncConnection) -> None:
        with ExitStack() as reserved:
            try:
                choice = DraftChoice(**request.choice)
                self._check_access(request)
                loaded = self._of_model(choice.model)
                options = _check(request, choice, loaded)
                if request.question is None:
                    reserved.enter_context(self._chat_slots.reserved())
                    tokenizer = self._chat_tokenizer(loaded.client)
                else:
                    reserved.enter_context(self._slots.reserved())
                    # In a thread, because long texts take a while.
                    question = await asyncio.to_thread(
                        _question, loaded.client, request, Question(**request.question), options
                    )
            except _DeclinedError as declined:
                connection.send(messages.Declined(str(declined)))
                return
            except (LookupError, TypeError, AttributeError, OutriderError):  # the client finds the same fault itself
                connection.send(messages.Declined(""))
                return
            connection.send(messages.Accepted())
            if request.question is None:
                await _serve_chat(loaded, connection, options.policy, tokenizer)
            else:
                await _until_lost(connection, _answer(loaded, question, connection))

    def _of_model(self, model: str) -> Loaded:
        """Raises _DeclinedError if it is not loaded."""
        name = model or self._first.description.served[0]
        if name not in self._loaded:
            loaded = ", ".join(f"'{each}'" for each in self._loaded)
            raise _DeclinedError(f"the running `outrider serve` has loaded {loaded}, not '{name}'")
        return self._loaded[name]

    def _check_access(self, request: messages.ServeRequest) -> None:
        if request.version != own_version():
            raise _DeclinedError("the running `outrider serve` is of another version")
        paths: Fields = {name: Path(value) for name, value in request.credentials["paths"].items()}
        credentials = Credentials(**paths, **request.credentials["values"])
        if _resolved(credentials.access_to(request.server)) != _resolved(self._access):
            raise _DeclinedError("the running `outrider serve` connects to the server with other credentials")

    def _chat_tokenizer(self, client: Client) -> Path:
        """A file that the chat can read. Raises _DeclinedError if there is none."""
        file = kept_file(self._cache, client.manifest)
        if not file.exists():
            raise _DeclinedError
        return file


async def _serve_chat(loaded: Loaded, connection: AsyncConnection, policy: Policy, tokenizer: Path) -> None:
    drafter = loaded.drafter(policy)
    # Without manifests: the chat neither fetches nor loads by this description.
    description = replace(loaded.client.description, bundles=(), quantised=(), replicas=())
    draft = loaded.client.draft
    connection.send(messages.ChatBegun(asdict(description), draft, str(tokenizer), await loaded.is_reached()))
    converse = loaded.client.converse(policy, drafter, shared_connection=loaded.shared_connection)
    async with loaded.monitor.counted(converse) as conversation:
        router = loaded.client.privacy_router(conversation)
        await ChatServer(router, connection, loaded.monitor.link_changed).serve()


async def _answer(loaded: Loaded, question: _Question, connection: AsyncConnection) -> None:
    options = question.options
    draft = loaded.client.draft if options.policy.drafts else None
    unreached = unreached_line(str(loaded.shared_connection.access.address), draft, "")
    renderer = _SocketRenderer(connection, unreached, is_live=question.is_live, is_shown=question.is_shown)
    if not await loaded.is_reached():
        renderer.show_unreached()

    def link_changed(state: LinkState) -> None:
        loaded.monitor.link_changed(state)
        if state is LinkState.OFFLINE:
            renderer.show_unreached()

    def tell_wait(seconds: float) -> None:
        connection.send(messages.Note(waiting_line(seconds)))

    on_wait = ignore_wait if question.is_live else tell_wait
    drafter = loaded.drafter(options.policy)
    converse = loaded.client.converse(options.policy, drafter, options.pace, question.offline, loaded.shared_connection)
    counted = loaded.monitor.counted(converse)
    try:
        outcome = await answer(loaded.client, counted, question.prompt, options, renderer, link_changed, on_wait)
    except OutriderError as error:
        connection.send(messages.AnswerFailed.of(error))
        return
    connection.send(messages.AnswerFinished(outcome.as_dict()))


def _check(request: messages.ServeRequest, choice: DraftChoice, loaded: Loaded) -> AnswerOptions:
    """The options of the answer. Raises _DeclinedError, and LookupError, TypeError, AttributeError or OutriderError
    for fields that cannot be used."""
    options = AnswerFlags(**request.answer).options(request.pace_draft_ms / 1000)
    _check_choice(choice, options, loaded)
    loaded.client.require_rule(options.rule)
    loaded.client.require_idle(options.idle)
    return options


def _question(client: Client, request: messages.ServeRequest, asked: Question, options: AnswerOptions) -> _Question:
    """Raises as `_check` does."""
    return _Question(
        prompt_of(client, asked),
        options,
        OfflineFlags(**request.offline).options(),
        is_shown=request.is_shown,
        is_live=request.is_live,
    )


def _check_choice(requested: DraftChoice, options: AnswerOptions, loaded: Loaded) -> None:
    own, client = loaded.choice, loaded.client
    if not options.policy.drafts:
        return
    if loaded.make_drafter is None:
        raise _DeclinedError("the running `outrider serve` drafts nothing")
    is_any = requested.draft == AUTO  # what is loaded already is the fastest to begin with
    draft = requested.bundle or choose_bundle(client.description.bundles, None).draft
    if not is_any and draft != client.manifest.draft:
        raise _DeclinedError(f"the running `outrider serve` drafts with '{client.manifest.draft}', not '{draft}'")
    # The number of threads changes no answer; 0 leaves it to the process that loads the draft.
    state = requested.state or own.state  # None is whatever the draft means
    device = own.device if requested.device == AUTO_DEVICE else requested.device
    same = replace(requested, draft=own.draft, threads=requested.threads or own.threads, state=state, device=device)
    names = [each.name for each in fields(same) if each.name not in _COMPARED_APART]
    other = [f"--{name}" for name in names if getattr(same, name) != getattr(own, name)]
    is_named = requested.draft is not None and not is_any
    drafts = [(each.kind(client.manifest), each.beside, each.other_bundles) for each in (requested, own)]
    if is_named and drafts[0] != drafts[1]:
        other.append("--draft")
    if other:
        raise _DeclinedError(f"the running `outrider serve` was started with another {', '.join(other)}")


async def _until_lost(connection: AsyncConnection, work: Awaitable[None]) -> None:
    """Ends the work when the client is gone."""
    working, ended = asyncio.ensure_future(work), asyncio.ensure_future(connection.ended())
    try:
        await asyncio.wait((working, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, ended):
            task.cancel()
        await asyncio.gather(working, ended, return_exceptions=True)
    if not working.cancelled():
        working.result()  # raises what went wrong, for the log


class _SocketRenderer:
    """A `Renderer` at the other end of the socket; provisional text only if that end can take it back."""

    def __init__(self, connection: AsyncConnection, unreached: str, *, is_live: bool, is_shown: bool):
        self._connection = connection
        self._unreached = unreached
        self._is_live = is_live
        self._is_shown = is_shown
        self._pace = ProvisionalPace(PROVISIONAL_INTERVAL_S)
        self._has_begun = False

    def show_unreached(self) -> None:
        """That the server is out of reach, once, and only before the text begins: a line may not stand within it."""
        if not self._has_begun:
            self._has_begun = True
            self._connection.send(messages.Note(self._unreached))

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        self._has_begun |= bool(final)
        if self._is_shown and final:
            self._pace.begin_anew()
            self._connection.send(messages.Text(final, provisional() if self._is_live else ""))
        elif self._is_shown and self._is_live:
            self._pace.show(lambda: self._send_provisional(provisional()))

    def _send_provisional(self, provisional: str) -> None:
        if self._connection.keeps_up:
            self._has_begun = True
            self._connection.send(messages.Redraw(provisional))

    def redraw(self, provisional: Callable[[], str]) -> None:
        if self._is_live and self._is_shown:
            self._pace.begin_anew()
            self._has_begun = True
            self._connection.send(messages.Redraw(provisional()))

    def end(self, unconfirmed: str) -> None:
        self._pace.drop()
        if self._is_shown:
            self._connection.send(messages.TextEnd(unconfirmed))


def _resolved(access: Access) -> Access:
    """With paths that mean the same in every folder."""
    if access.tls is None:
        return access
    tls = access.tls
    ca, certificate, key = (path and path.resolve() for path in (tls.ca, tls.certificate, tls.key))
    return replace(access, tls=replace(tls, ca=ca, certificate=certificate, key=key))
