"""`outrider serve`: OpenAI's interface on this machine, to a server far away."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from client.assembly import Client, clients_for
from client.drafting.draft_loader import DraftChoice
from client.endpoint.access_checks import access_rules_for
from client.endpoint.app import OpenAiPaths, make_app
from client.endpoint.connections import BACKLOG, TimedConnection
from client.endpoint.conversation_pool import ConversationPool
from client.endpoint.monitor import HealthProbe, Monitor
from client.endpoint.ollama_paths import OllamaPaths
from client.endpoint.outage_notes import OutageNotes
from client.endpoint.page import LinkControl, PageContext, PagePaths
from client.endpoint.responses_paths import ResponsesPaths
from client.endpoint.served_models import ServedModels
from client.endpoint.service import EndpointDefaults, Service, WhenOffline
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.link.stream import Access
from client.local_serve.listener import Listener, Loaded
from client.terminal.progress import download_bar
from client.terminal.render import unreached_line
from common.address import Address, written
from common.cache import cache_directory
from common.protocol.errors import MisuseError

_WAITING = 64
_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Listening:
    """`slots` requests are answered at once; `key` is None if no API key is needed; web pages of `origins` may ask."""

    address: Address
    slots: int
    key: str | None
    origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises MisuseError if anybody could ask."""
        if self.key is None and not self.address.is_loopback:
            raise MisuseError(
                f"{self.address} is open to other machines; ask for a key with --api-key-file, or listen on 127.0.0.1"
            )


async def serve(
    access: Access,
    choice: DraftChoice,
    models: Sequence[str],
    cache: Path | None,
    defaults: EndpointDefaults,
    offline: OfflineOptions,
    listening: Listening,
    loaded: Callable[[], None],
    link_control: LinkControl | None = None,
) -> None:
    """Serves these models of the server, all if none is named, until SIGTERM or SIGINT. Their bundles are fetched and
    loaded at once, so that no request waits for that, and all answer while the link is gone. `loaded` is called before
    anything is printed. Raises MisuseError for a port that cannot be had."""
    with closing(bind(listening.address)) as port:
        async with AsyncExitStack() as stack:
            drafts = defaults.options.policy.drafts
            found = clients_for(access, choice, models, cache, download_bar, drafts=drafts)
            clients = await stack.enter_async_context(found)
            for client in clients:
                client.require_idle(defaults.options.idle)
            app, parts = await _assemble(
                stack, clients, defaults, offline, listening, link_control, lambda: server.should_exit
            )
            listener = Listener(parts, access, cache_directory(cache), listening.slots)
            loaded()
            writes_alone = drafts and defaults.when_offline is WhenOffline.ANSWER
            for client in clients:
                if not client.was_reached:
                    draft = client.draft if writes_alone else None
                    _say(unreached_line(written(access.addresses), draft, client.hung_up_by))
            host, number = port.getsockname()[:2]

            def ready() -> None:
                _say(f"ready on {Address(host, number)}")
                _say(f"the page is at http://{Address(host, number)}/")

            config = uvicorn.Config(
                app,
                log_level="critical",  # every error is sent to its client; a stream that the shutdown ends is no error
                lifespan="off",
                http=TimedConnection,
                backlog=BACKLOG,
                timeout_graceful_shutdown=_GRACE_S,
            )
            server = _Server(config, listener, ready)
            try:
                await server.serve([port])
            except asyncio.CancelledError:
                server.should_exit = True  # ends the streams of open pages
                await server.shutdown([port])
                raise


class _Server(uvicorn.Server):
    """Opens the Unix socket of `listener` after uvicorn's port and closes it before; `ready` is called in between."""

    def __init__(self, config: uvicorn.Config, listener: Listener, ready: Callable[[], None]):
        super().__init__(config)
        self._listener = listener
        self._ready = ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """As uvicorn's, but the signal is not raised again, so that the exit code is 0, as `outriderd`'s."""
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        await self._listener.open()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._listener.close()
        await super().shutdown(sockets)


async def _assemble(
    stack: AsyncExitStack,
    clients: Sequence[Client],
    defaults: EndpointDefaults,
    offline: OfflineOptions,
    listening: Listening,
    link_control: LinkControl | None,
    is_closing: Callable[[], bool],
) -> tuple[Any, list[Loaded]]:
    first, policy = clients[0], defaults.options.policy
    shared_connection = await stack.enter_async_context(first.share_connection())
    state = LinkState.ONLINE if first.was_reached else LinkState.OFFLINE
    notes = OutageNotes(state, lambda: str(shared_connection.access.address), _say)
    monitor = Monitor(state, HealthProbe(shared_connection), lambda: pool.answering > pool.answering_alone, notes)
    loaded = [
        Loaded(client, client.load_draft() if policy.drafts else None, shared_connection, monitor, client.choice)
        for client in clients
    ]
    by_model = {each.client.description.model: each for each in loaded}

    def open_conversation(model: str) -> Any:
        drafter, client = by_model[model].drafter(policy), by_model[model].client
        return monitor.counted(client.converse(policy, drafter, defaults.options.pace, offline, shared_connection))

    pool = await stack.enter_async_context(ConversationPool(open_conversation, listening.slots, _WAITING))
    models = ServedModels([Service(client, pool, defaults, monitor.link_changed) for client in clients])

    async def health() -> dict[str, Any]:
        await monitor.refresh()
        return {
            "status": "ok",
            "link": monitor.link.value,
            "server": str(shared_connection.access.address),
            "model": first.description.model,
            "models": list(by_model),
            "answering": pool.answering,
            "waiting": pool.waiting,
        }

    paths = OpenAiPaths(models, defaults.options.sampling, health, strict=defaults.strict)
    page = PagePaths(
        PageContext(first, models, monitor, defaults.options.sampling, defaults.rule, link_control, is_closing)
    )
    rules = access_rules_for(listening.address.host, listening.key, listening.origins)
    ollama = OllamaPaths(models, defaults.options.sampling)
    responses = ResponsesPaths(models, defaults.options.sampling, strict=defaults.strict)
    app = make_app([*paths.routes(), *responses.routes(), *ollama.routes(), *page.routes()], rules)
    return app, loaded


def bind(address: Address) -> socket.socket:
    """Listens. Raises MisuseError for a port that cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise MisuseError(f"{address} is in use or not this machine's; name another with --listen") from error


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
