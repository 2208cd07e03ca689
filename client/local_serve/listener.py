"""`outrider serve`'s end of the socket: answers this user's `outrider run` and `chat` with what is loaded already.

Each question has a session of its own on the connection that all share, so that every option of an answer counts as in
`outrider run`. What a drafter was loaded with cannot be changed; a question that wants it otherwise is declined.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from client.answering import AnswerOptions
from client.assembly import Client
from client.cache.bundles import choose_bundle
from client.cache.tokenizers import kept_file
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import Policy
from client.endpoint.monitor import Monitor
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.shared_connection import SharedConnection
from client.link.stream import Access
from client.local_serve.running import (
    LONGEST_LINE_BYTES,
    Running,
    UnsafeError,
    announce,
    can_listen,
    is_own,
    own_version,
    prepare_socket,
    withdraw,
)
from client.local_serve.served_conversation import PROVISIONAL_SECONDS, Event, Events, ServedConversation
from client.one_answer import answer, prompt_of
from client.options import AnswerRequest, Credentials, OfflineRequest
from client.private.spans import SplitPrompt
from client.terminal.render import unreached_line
from common.protocol.errors import MisuseError, OutriderError

_REQUEST_SECONDS = 10.0
MakeDrafter = Callable[[], Any]


class _DeclinedError(Exception):
    """Why the other end should load what it needs; empty where that is nobody's concern."""


@dataclass(frozen=True, slots=True)
class _Question:
    prompt: SplitPrompt
    options: AnswerOptions
    offline: OfflineOptions
    is_shown: bool  # to a person, whom drafts may be shown too
    is_live: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """What `outrider serve` runs on; `make_drafter` is None where nothing drafts."""

    client: Client
    make_drafter: MakeDrafter | None
    shared_connection: SharedConnection
    monitor: Monitor
    choice: DraftChoice


class Listener:
    """Listens from `open` to `close`; where nobody can listen here, nobody does. At most `places` questions are
    answered at once, beside those of at most `places` chats."""

    def __init__(self, loaded: Loaded, cache: Path, places: int):
        self._loaded = loaded
        self._cache = cache
        self._free = places
        self._free_for_chats = places
        self._running: Running | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        if not can_listen():
            return
        try:
            path = prepare_socket(self._cache, os.getpid())
            self._running = Running(os.getpid(), own_version(), str(self._loaded.client.access.address), str(path))
            self._server = await asyncio.start_unix_server(self._meet, path, limit=LONGEST_LINE_BYTES)
            path.chmod(0o600)
            announce(self._cache, self._running)
        except (OSError, UnsafeError):  # apps are answered all the same
            await self.close()

    async def close(self) -> None:
        if self._running is not None:
            withdraw(self._cache, self._running)
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if is_own(writer.get_extra_info("socket")):
                await self._serve(reader, Events(writer))
        except (TimeoutError, OSError, ValueError):
            pass  # whoever it was has gone, or speaks something else
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, events: Events) -> None:
        request = json.loads(await asyncio.wait_for(reader.readline(), _REQUEST_SECONDS))
        try:
            options = self._check(request)
            if request.get("chat"):
                accepted = self._about_chats()
            else:
                question = await asyncio.to_thread(self._understand, request, options)  # long texts take a while
        except _DeclinedError as declined:
            events.say({"declined": str(declined)})
            return
        except (LookupError, TypeError, AttributeError, OutriderError):  # which the other end will find out
            events.say({"declined": ""})
            return
        if request.get("chat"):
            await self._serve_chat(reader, events, options.policy, accepted)
            return
        self._free -= 1
        try:
            events.say({"accepted": True})
            await self._until_gone(reader, self._answer(question, events))
        finally:
            self._free += 1

    async def _serve_chat(self, reader: asyncio.StreamReader, events: Events, policy: Policy, accepted: Event) -> None:
        loaded = self._loaded
        self._free_for_chats -= 1
        try:
            events.say(accepted)
            make_drafter = loaded.make_drafter if policy.drafts else None
            drafter = None if make_drafter is None else make_drafter()
            converse = loaded.client.converse(policy, drafter, shared_connection=loaded.shared_connection)
            async with loaded.monitor.counted(converse) as conversation:
                router = loaded.client.privacy_router(conversation)
                await ServedConversation(router, events, loaded.monitor.link_changed).serve(reader)
        finally:
            self._free_for_chats += 1

    def _about_chats(self) -> Event:
        """What a chat has to know. Raises _DeclinedError where it can have none."""
        client, tokenizer = self._loaded.client, kept_file(self._cache, self._loaded.client.manifest)
        if self._free_for_chats < 1 or not tokenizer.exists():
            raise _DeclinedError
        return {
            "accepted": True,
            "description": asdict(replace(client.description, bundles=())),
            "draft": client.manifest.draft,
            "tokenizer": str(tokenizer),
            "reached": self._loaded.monitor.link is LinkState.ONLINE,
        }

    async def _until_gone(self, reader: asyncio.StreamReader, work: Any) -> None:
        working, gone = asyncio.ensure_future(work), asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, gone):
                task.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)

    async def _answer(self, question: _Question, events: Events) -> None:
        loaded, options = self._loaded, question.options
        if loaded.monitor.link is not LinkState.ONLINE:
            events.say({"note": unreached_line(str(loaded.client.access.address), loaded.client.manifest.draft, "")})
        drafter = loaded.make_drafter() if loaded.make_drafter is not None and options.policy.drafts else None
        converse = loaded.client.converse(
            options.policy, drafter, options.pace, question.offline, loaded.shared_connection
        )
        renderer = _RemoteRenderer(events, is_live=question.is_live, is_shown=question.is_shown)
        try:
            outcome = await answer(
                loaded.client,
                loaded.monitor.counted(converse),
                question.prompt,
                options,
                renderer,
                loaded.monitor.link_changed,
            )
        except OutriderError as error:
            events.say({"failed": str(error), "misuse": isinstance(error, MisuseError)})
            return
        events.say(outcome.as_dict())

    def _check(self, request: Event) -> AnswerOptions:
        """What is asked for. Raises _DeclinedError, and whatever a request that cannot be makes of itself."""
        client = self._loaded.client
        if request["version"] != own_version():
            raise _DeclinedError("the running `outrider serve` is of another version")
        self._check_access(request)
        answer_request = AnswerRequest(**request["answer"])
        options = answer_request.options(request["pace_draft"] / 1000)
        self._check_choice(DraftChoice(**request["choice"]), options)
        client.require_rule(options.rule)
        client.require_idle(options.idle)
        return options

    def _understand(self, request: Event, options: AnswerOptions) -> _Question:
        """Raises as `_check` does."""
        if self._free < 1:
            raise _DeclinedError
        return _Question(
            prompt_of(self._loaded.client, request["prompt"], raw=request["raw"]),
            options,
            OfflineRequest(**request["offline"]).options(),
            is_shown=not request["json"],
            is_live=request["live"] is True,
        )

    def _check_access(self, request: Event) -> None:
        said = request["credentials"]
        paths: dict[str, Any] = {name: Path(value) for name, value in said["paths"].items()}
        credentials = Credentials(**paths, **said["words"])
        if _resolved(credentials.access_to(request["server"])) != _resolved(self._loaded.client.access):
            raise _DeclinedError("the running `outrider serve` speaks to the server with other credentials")

    def _check_choice(self, wished: DraftChoice, options: AnswerOptions) -> None:
        has, client = self._loaded.choice, self._loaded.client
        if not options.policy.drafts:
            return
        if self._loaded.make_drafter is None:
            raise _DeclinedError("the running `outrider serve` drafts nothing")
        draft = wished.draft or choose_bundle(client.description.bundles, None).draft
        if draft != client.manifest.draft:
            raise _DeclinedError(f"the running `outrider serve` drafts with '{client.manifest.draft}', not '{draft}'")
        # How many threads there are changes no answer, and 0 leaves them to whoever has loaded.
        same = replace(wished, draft=has.draft, threads=wished.threads or has.threads)
        names = [f"--{name}" for name in ("device", "dtype", "threads", "layers", "state")]
        other = [name for name in names if getattr(same, name[2:]) != getattr(has, name[2:])]
        if other:
            raise _DeclinedError(f"the running `outrider serve` was started with another {', '.join(other)}")


class _RemoteRenderer:
    """What the other end of the socket shows; drafts only where it can take them back."""

    def __init__(self, events: Events, *, is_live: bool, is_shown: bool):
        self._events = events
        self._is_live = is_live
        self._is_shown = is_shown
        self._drawn = time.monotonic() - PROVISIONAL_SECONDS

    def write(self, final: str, provisional: Callable[[], str]) -> None:
        now = time.monotonic()
        is_due = self._is_live and now - self._drawn >= PROVISIONAL_SECONDS and self._events.is_read
        if not self._is_shown or not (final or is_due):
            return
        self._drawn = now
        self._events.say({"write": final, "provisional": provisional() if self._is_live else ""})

    def redraw(self, provisional: Callable[[], str]) -> None:
        if self._is_live and self._is_shown:
            self._events.say({"redraw": provisional()})

    def end(self, unconfirmed: str) -> None:
        if self._is_shown:
            self._events.say({"end": unconfirmed})


def _resolved(access: Access) -> Access:
    """With paths that mean the same in every folder."""
    if access.tls is None:
        return access
    tls = access.tls
    ca, certificate, key = (path and path.resolve() for path in (tls.ca, tls.certificate, tls.key))
    return replace(access, tls=replace(tls, ca=ca, certificate=certificate, key=key))
