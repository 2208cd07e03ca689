"""The page behind its real paths, with a service that answers by a script: no model, no link, and no waiting.

A question is the name of its script. A script may wait for the test, so that what is between two updates can be looked
at for as long as that takes.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import uvicorn

from client.answer import Answer
from client.answering import AnswerOptions, require_rule
from client.drafting.policies import STREAM
from client.endpoint.access_checks import access_rules_for
from client.endpoint.answer_on_conversation import Choice
from client.endpoint.answer_parsers.pieces import PlainText
from client.endpoint.app import make_app
from client.endpoint.monitor import Monitor
from client.endpoint.page import PageContext, PagePaths
from client.endpoint.served_models import ServedModels
from client.endpoint.stream_emitter import TextForm
from client.link.link_state import LinkState
from client.private.spans import SplitPrompt
from common.protocol.rules import RULES
from common.protocol.sampling import Sampling
from common.protocol.views import NodeView
from tests.client.demo.answers import answer as whole_answer


class Words:
    """A tokenizer whose tokens are words with the space before them."""

    def __init__(self) -> None:
        self._words: list[str] = []

    def tokens(self, text: str) -> tuple[int, ...]:
        pieces = re.findall(r"\s*\S+|\s+", text)
        self._words += pieces
        return tuple(range(len(self._words) - len(pieces), len(self._words)))

    def decode(self, tokens: Sequence[int], **_: Any) -> str:
        return "".join(self._words[token] for token in tokens)


@dataclass(frozen=True, slots=True)
class Update:
    """`final` becomes final, its first `carried` words drafted before; `provisional` is shown behind it, and each of
    `others` is drafted beside it, from the beginning on."""

    final: str = ""
    provisional: str = ""
    carried: int = 0
    others: tuple[str, ...] = ()


class Wait:
    """Until the test goes on."""


Scene = Update | LinkState | Wait | Answer | Exception
"""The last one of a script is how it ends; a script that does not say so ends well."""


@dataclass
class _Session:
    drafted: tuple[NodeView, ...] = ()
    carried: int = 0


@dataclass
class ScriptedService:
    """As much of `Service` as the page needs."""

    scripts: dict[str, Sequence[Scene]]
    model: str = "big-7b"
    context: int = 4096
    end_tokens: tuple[int, ...] = ()
    tokenizer: Words = field(default_factory=Words)
    going: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    asked: list[str] = field(default_factory=list)
    on_link_change: Callable[[LinkState], None] = lambda _: None

    def choices(self, request: Any) -> list[Choice]:
        options = AnswerOptions(STREAM, 16, "coupled", sampling=request.sampling)
        self.asked.append(request.messages[-1]["content"])
        prompt = SplitPrompt((len(self.asked) - 1,), (0,) if "private" in self.asked[-1] else None)
        return [Choice(prompt, options, TextForm((), PlainText(), {}, ()), is_verified=False)]

    async def show(
        self,
        prompt: SplitPrompt,
        _: AnswerOptions,
        on_begin: Callable[[Any], None],
        on_tokens: Callable[[Sequence[int], Sequence[int]], None],
        on_link_change: Callable[[LinkState], None],
    ) -> Answer:
        session = _Session()
        on_begin(session)
        for scene in self.scripts[self.asked[prompt.safe[0]]]:
            match scene:
                case Update():
                    run = self.tokenizer.tokens(scene.provisional)
                    others = [self.tokenizer.tokens(other) for other in scene.others]
                    session.drafted = _nodes([run, *others])
                    session.carried = range(scene.carried)
                    on_tokens(self.tokenizer.tokens(scene.final), run)
                    await asyncio.sleep(0.06)  # longer than the page's own interval
                case LinkState():
                    self.on_link_change(scene)
                    on_link_change(scene)
                case Wait():
                    await self.going.acquire()
                case Answer():
                    return scene
                case Exception():
                    raise scene
        return whole_answer()


def _nodes(paths: Sequence[Sequence[int]]) -> tuple[NodeView, ...]:
    """Chains side by side, each less likely than the one before."""
    nodes: list[NodeView] = []
    ids = count(1)
    for index, path in enumerate(paths):
        parent = 0
        for depth, token in enumerate(path):
            nodes.append(NodeView(next(ids), parent, token, depth, -0.1 * (depth + 1) - 1.5 * index))
            parent = nodes[-1].id
    return tuple(nodes)


class Switch:
    is_cut = False

    def turn(self, *, cut: bool) -> None:
        self.is_cut = cut


@dataclass(frozen=True, slots=True)
class ScriptedPage:
    url: str
    go_on: Callable[[], None]
    """Lets a script that waits go on."""


@contextmanager
def scripted_page(scripts: dict[str, Sequence[Scene]]) -> Iterator[ScriptedPage]:
    service = ScriptedService(scripts)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(_app(service, lambda: server.should_exit), log_level="error"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve([listening]),))
    thread.start()
    try:
        port = listening.getsockname()[1]
        yield ScriptedPage(f"http://127.0.0.1:{port}/", lambda: loop.call_soon_threadsafe(service.going.release))
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()
        loop.close()


def _app(service: ScriptedService, is_closing: Callable[[], bool]) -> Any:
    async def probe() -> float:
        return 0.04

    client = SimpleNamespace(
        access=SimpleNamespace(address="far.example:7070"),
        description=SimpleNamespace(model=service.model, rules=tuple(RULES)),
        draft="small-0.5b",
        require_rule=lambda rule: require_rule(rule, tuple(RULES)),
    )
    monitor = Monitor(LinkState.ONLINE, probe, lambda: True)
    service.on_link_change = monitor.link_changed
    context = PageContext(client, ServedModels([service]), monitor, Sampling(), None, Switch(), is_closing)
    return make_app(PagePaths(context).routes(), access_rules_for("127.0.0.1", None))
