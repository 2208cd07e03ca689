"""Sessions for which the server drafts, and server drafters that know the answers, for tests without a model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from common.protocol.messages import Commit, Settings
from common.protocol.views import Proposal, TreeView
from server.sessions.sessions import Sessions
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, one_pass
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.proposers import Proposer, knowing

ASSISTED = Settings(max_new_tokens=40, idle="assist")
ASSISTING = ("assist", "auto", "colocated")
"""Idle policies with which the server drafts."""


def new_sessions(idle: str = "assist", lease_seconds: float = 0.0, **terms: Any) -> Sessions:
    offered = {"idle": idle, "server_drafts": True, "end_tokens": frozenset(), **terms}
    return Sessions(replace(TERMS, **offered), replace(SERVING_LIMITS, lease_seconds=lease_seconds), capacity=2000)


def truth_of(prompt: Sequence[int], count: int = 40) -> list[int]:
    return decode(prompt, count, end=-1)


def knowing_all(*prompts: Sequence[int], skill: float = 0.8) -> Proposer:
    """Knows the answer to each of the prompts."""
    each = [knowing([*prompt, *truth_of(prompt)], skill, VOCAB, seed) for seed, prompt in enumerate(prompts)]

    def propose(view: TreeView) -> Sequence[Proposal]:
        (own,) = (know for know, prompt in zip(each, prompts, strict=True) if view.tokens[0] == prompt[0])
        return own(view)

    return propose


def begun(sessions: Sessions, fake_target: FakeTarget, prompt: list[int], idle: str = "assist") -> Client:
    """A client whose prompt has been computed."""
    client = Client(sessions, str(prompt[:3]))
    client.open(prompt, Settings(40, idle=idle))
    while not client.inbox or not isinstance(client.inbox[-1], Commit):
        assert one_pass(sessions, fake_target)
    return client


def long_pass(sessions: Sessions, fake_target: FakeTarget, now: float, seconds: float = 0.3) -> None:
    batch = sessions.plan(now)
    if batch is not None:
        sessions.complete(batch, fake_target.verify(batch.scheduled), now + seconds)
