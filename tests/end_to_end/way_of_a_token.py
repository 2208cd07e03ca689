"""The way of a token: which of our functions it passes from the prompt to the first committed token on the screen.

    python -m tests.end_to_end.way_of_a_token

runs a real client against a real server in one process, over gRPC on loopback, and prints those functions in order and
by leg: up (client), server, down (client). Measured between the call of `PrivacyRouter.answer` with the prompt's tokens
and the renderer's write of the first committed token's text, in all threads.

A function is on the way if the token is in its hands: if one of its arguments, its local variables or its results is or
contains the last token of the prompt, the first committed token, or that token's text. What is looked into: sequences,
mappings, frozen dataclasses, protobuf frames, tensors of integers, and partial applications of functions; not `self`
and no other mutable object. So the set-up of the connection, timers, link watching, metering and accounting are not
counted, because no token is handed to them.

Not counted by kind: module bodies, comprehensions, lambdas, properties, constructors and other dunder methods (but
`__call__` and `__aiter__`, which do work), and generated code. Not counted by purpose: functions that only look at the
token, to check, count or time it: those of `_ONLOOKERS`, with what these call, and of `_TIMERS`. Each function is
counted once, where it is entered first. The policy is `cloud`, so that nothing is drafted beside it.
"""

import asyncio
import inspect
import io
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import torch
from google.protobuf.message import Message
from rich.console import Console

from client.assembly import client_for
from client.drafting.draft_loader import DraftChoice
from client.drafting.policies import CLOUD
from client.link.stream import Access
from client.terminal.progress import download_bar
from client.terminal.render import AnswerView, PlainRenderer
from client.text import decode, raw_prompt
from common.address import parse_address
from common.protocol.messages import Settings
from tests.families import make_checkpoint
from tests.server.harness import options_for, running
from tests.server.reference import Reference

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "jumps over the quick brown fox"
LEGS = ("up", "server", "down")

_DEEPEST = 6  # levels of nested containers that are searched
_MOST_ITEMS = 256
_ONLOOKERS = (
    "common.protocol.checks",
    "server.sessions.accounting",
    "server.sessions.admission",
    "client.drafting.provisional",
)
"""Modules that check or count what passes, and hand nothing on. Admission takes a prompt's length, and its hash."""

_TIMERS = ("server.security.call_gate",)
"""Modules that time each frame as it comes and goes."""

_DUNDERS = ("__call__", "__aiter__")


class Trace:
    """The functions that held a token, in the order in which they first held it. `text` is the text of the committed
    token."""

    def __init__(self, tokens: Iterable[int], text: str):
        self.found: dict[str, str] = {}
        """Each function's leg."""
        self._tokens = frozenset(tokens)
        self._text = text
        self._is_on = False

    def begin(self) -> None:
        self._is_on = True
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def end(self) -> None:
        self._is_on = False
        threading.setprofile(None)
        sys.setprofile(None)

    def leg(self, leg: str) -> list[str]:
        return [name for name, where in self.found.items() if where == leg]

    def _event(self, frame: FrameType, event: str, result: Any) -> None:
        if not self._is_on or event not in ("call", "return") or _name(frame.f_code) in self.found:
            return
        if not (self._passes(frame) and (self._carries(result, 0) or self._holds(frame))):
            return
        # A caller that has held it since an earlier call has had no event since.
        on_the_way, caller = [frame], frame.f_back
        while caller is not None:
            if _name(caller.f_code) not in self.found and self._passes(caller) and self._holds(caller):
                on_the_way.append(caller)
            caller = caller.f_back
        for each in reversed(on_the_way):
            self.found[_name(each.f_code)] = self._leg_of(each)

    @staticmethod
    def _passes(frame: FrameType) -> bool:
        caller = frame.f_back
        return _is_counted(frame.f_code) and not (caller is not None and _module(caller.f_code) in _ONLOOKERS)

    def _holds(self, frame: FrameType) -> bool:
        return any(self._carries(value, 0) for name, value in frame.f_locals.items() if name not in ("self", "cls"))

    def _leg_of(self, frame: FrameType) -> str:
        if _end_of(frame) == "server":
            return "server"
        return "down" if "server" in self.found.values() else "up"

    def _carries(self, value: Any, depth: int) -> bool:
        if isinstance(value, str):
            return bool(self._text) and value == self._text
        if isinstance(value, int):
            return not isinstance(value, bool) and value in self._tokens
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() or value.dtype is torch.bool or value.numel() > _MOST_ITEMS:
                return False
            return any(token in self._tokens for token in value.flatten().tolist())
        if depth == _DEEPEST:
            return False
        return any(self._carries(each, depth + 1) for each in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple, deque, set, frozenset)):
        return list(value)[:_MOST_ITEMS]
    if isinstance(value, Mapping):
        return list(value.values())[:_MOST_ITEMS]
    if isinstance(value, partial):
        return (*value.args, *value.keywords.values())
    if isinstance(value, Message):
        return [part for _, part in value.ListFields()]
    if type(value).__name__.startswith("Repeated"):
        return list(value)[:_MOST_ITEMS]
    if is_dataclass(value) and not isinstance(value, type) and value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return [getattr(value, field.name, None) for field in fields(value)]
    return ()


def _is_counted(code: CodeType) -> bool:
    package = _package(code)
    if package not in ("client", "server", "common") or "/generated/" in code.co_filename:
        return False
    if _module(code) in _ONLOOKERS + _TIMERS:
        return False
    name = code.co_name
    if name.startswith("<") or (name.startswith("__") and name not in _DUNDERS):
        return False
    return not _is_property(code)


def _package(code: CodeType) -> str:
    if not code.co_filename.startswith(f"{ROOT}/"):
        return ""
    return code.co_filename[len(str(ROOT)) + 1 :].partition("/")[0]


def _module(code: CodeType) -> str:
    if not _package(code):
        return ""
    return code.co_filename[len(str(ROOT)) + 1 :].removesuffix(".py").replace("/", ".")


def _name(code: CodeType) -> str:
    return f"{_module(code)}:{code.co_qualname}"


def _is_property(code: CodeType) -> bool:
    owner: Any = sys.modules.get(_module(code))
    for part in code.co_qualname.split("."):
        owner = inspect.getattr_static(owner, part, None)
    return isinstance(owner, (property, cached_property))


def _end_of(frame: FrameType) -> str:
    """Which end runs a function: the end of its nearest caller that belongs to one, else that of its thread."""
    at: FrameType | None = frame
    while at is not None:
        module = _module(at.f_code)
        if module.startswith("server.") or module == "common.rpc.service":
            return "server"
        if module.startswith("client.") or module == "common.rpc.stub":
            return "client"
        at = at.f_back
    return "server" if threading.current_thread().name.startswith("target") else "client"


class _Screen(io.StringIO):
    """Ends the trace when text reaches it."""

    def __init__(self, trace: Trace):
        super().__init__()
        self._trace = trace

    def write(self, text: str) -> int:
        self._trace.end()
        return super().write(text)


async def walk(folder: Path) -> Trace:
    target = make_checkpoint(folder / "target", "llama")
    async with running(options_for(target)) as server:
        access = Access(parse_address(server.address))
        async with client_for(access, DraftChoice(), folder / "cache", download_bar) as client:
            prompt = raw_prompt(client.tokenizer, PROMPT)
            first = Reference(target).answer(prompt.tokens, 1)[0]
            trace = Trace((prompt.tokens[-1], first), decode(client.tokenizer, [first]))
            screen = PlainRenderer(Console(file=_Screen(trace)))
            view = AnswerView(client.tokenizer, screen, client.description.end_tokens)
            async with client.converse(CLOUD, None) as conversation:
                trace.begin()
                try:
                    answer = await client.privacy_router(conversation).answer(prompt, Settings(29, idle="eager"), view)
                finally:
                    trace.end()
            assert answer.tokens[0] == first
    return trace


def main() -> None:
    with TemporaryDirectory() as folder:
        trace = asyncio.run(walk(Path(folder)))
    for leg in LEGS:
        steps = trace.leg(leg)
        print(f"{leg}: {len(steps)}")  # noqa: T201
        for step in steps:
            print(f"    {step}")  # noqa: T201
    print(f"together: {len(trace.found)}")  # noqa: T201


if __name__ == "__main__":
    main()
