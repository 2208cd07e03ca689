"""How many nodes sessions put into a pass, from the measured cost of passes and the probability of nodes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from common.protocol.messages import Cancel, Grow, GrownNode, Settings
from server.passes.batch import PlannedPass
from server.passes.scheduler import LEAST_CHUNK
from server.sessions.sessions import ServingLimits, SessionEntry, Sessions
from tests.server.clients_of_sessions import TERMS, Client, prompt_of
from tests.server.fake_target import FakeTarget

Cost = Callable[[int], float]
SERVING_LIMITS = ServingLimits(max_sessions=8, pass_tokens=64)
LONG = Settings(max_new_tokens=300)
FAR = 1000.0


def flat(tokens: int) -> float:
    return 0.03


def steep(tokens: int) -> float:
    return 0.03 * tokens


class Server:
    """Sessions of a target whose passes cost what `cost` returns."""

    def __init__(self, cost: Cost):
        self.sessions = Sessions(replace(TERMS, end_tokens=frozenset()), SERVING_LIMITS, capacity=2000)
        self._fake_target = FakeTarget()
        self._cost = cost
        self._now = 0.0

    def one_pass(self, later: float = FAR) -> PlannedPass[SessionEntry]:
        self._now += later
        batch = self.sessions.plan(self._now)
        assert batch is not None
        self._now += self._cost(batch.work.tokens)
        self.sessions.complete(batch, self._fake_target.verify(batch.scheduled), self._now)
        return batch

    def decoding(self, name: str, prompt: list[int]) -> Client:
        """A client whose prompt and some tokens have been computed, so that the costs of wide and narrow passes are
        known."""
        client = Client(self.sessions, name)
        client.open(prompt, LONG)
        while len(client.session.answer) < 3:
            self.one_pass()
            client.hear()
        return client


def grow(client: Client, count: int, logp: float) -> None:
    """A chain of `count` nodes that the target is unlikely to take."""
    session = client.session
    first = session.tree.last_id + 1
    parents = [0, *range(first, first + count)]
    nodes = [GrownNode(first + index, parents[index], 49 - index, logp) for index in range(count)]
    session.tree.grow(session.tree.frontier, nodes)
    client.say(Grow(session.turn, session.tree.frontier, tuple(nodes)))


def widths(batch: PlannedPass[SessionEntry]) -> dict[object, int]:
    """The number of nodes of each client."""
    return {entry.sink: scheduled.nodes for entry, scheduled in zip(batch.owners, batch.scheduled, strict=True)}


@pytest.mark.parametrize(("cost", "taken"), [(flat, 20), (steep, 0)])
def test_improbable_nodes_join_passes_where_they_come_free_and_no_others(cost: Cost, taken: int) -> None:
    server = Server(cost)
    client = server.decoding("s", prompt_of(1, 100))
    grow(client, 20, logp=-4.0)
    assert widths(server.one_pass()) == {client: taken}


def test_where_passes_grow_the_likely_nodes_are_taken_and_not_the_others() -> None:
    server = Server(lambda tokens: 0.03 + 0.002 * tokens)
    sure, unsure = (server.decoding(name, prompt_of(seed, 100)) for seed, name in enumerate(("sure", "unsure")))
    sure.hear()
    grow(sure, 8, logp=-0.05)
    grow(unsure, 8, logp=-6.0)
    assert widths(server.one_pass()) == {sure: 8, unsure: 0}


def test_however_dear_tokens_are_every_prompt_moves_on_and_every_session_decodes() -> None:
    server = Server(steep)
    decoding = server.decoding("decoding", prompt_of(1, 100))
    grow(decoding, 8, logp=-0.5)
    reading = Client(server.sessions, "reading")
    reading.open(prompt_of(2, 40), LONG)
    batch = server.one_pass()
    chains = [len(scheduled.chain) for scheduled in batch.scheduled]
    assert dict(zip([entry.sink for entry in batch.owners], chains, strict=True)) == {
        decoding: 1,
        reading: LEAST_CHUNK,
    }


def test_where_nobody_decodes_a_prompt_fills_the_pass() -> None:
    server = Server(steep)
    server.decoding("one that will be over", prompt_of(1, 100)).say(Cancel(0))
    reading = Client(server.sessions, "reading")
    reading.open(prompt_of(2, 200), LONG)
    assert server.one_pass().work.tokens == 64


def test_a_session_that_waits_for_its_client_is_not_held_up_by_a_prompt_either() -> None:
    """It may want a pass in the middle of the prompt's."""
    server = Server(steep)
    decoding = server.decoding("decoding", prompt_of(1, 100))
    while not decoding_entry(server).session.stalled:  # it acknowledges nothing
        server.one_pass()
    reading = Client(server.sessions, "reading")
    reading.open(prompt_of(2, 300), LONG)
    batch = server.one_pass(later=0.0)
    assert [entry.sink for entry in batch.owners] == [reading]
    assert batch.work.tokens == LEAST_CHUNK
    assert server.one_pass(later=FAR).work.tokens == 64, "its client has been away for long"
    assert not decoding.done


def decoding_entry(server: Server) -> SessionEntry:
    return next(iter(server.sessions._registry.entries))


def test_before_any_pass_was_measured_all_nodes_are_taken() -> None:
    server = Server(steep)
    client = Client(server.sessions, "s")
    client.open([3], LONG)
    grow(client, 20, logp=-4.0)
    assert widths(server.one_pass()) == {client: 20}


def test_one_slow_pass_keeps_passes_narrow_only_for_a_while() -> None:
    """For example the first pass on a cold device. The narrow passes that follow would never show that wide ones are
    fast."""
    costs = iter([3.0])
    server = Server(lambda tokens: next(costs, 0.03))
    client = Client(server.sessions, "s")
    client.open(prompt_of(1, 30), Settings(max_new_tokens=200))
    for _ in range(6):
        server.one_pass()
        client.hear()
    taken = []
    for _ in range(60):
        grow(client, 20, logp=-0.05)
        taken.append(widths(server.one_pass())[client])
        client.hear()
    assert taken[0] == 0
    assert taken[-1] == 20
