"""A client gets as much beside one that asks for everything as beside one that asks for as much as itself."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from common.protocol.messages import Grow, GrownNode, Settings
from server.sessions.sessions import ServingLimits, Sessions
from tests.server.clients_of_sessions import LIMITS, TERMS, Client, prompt_of
from tests.server.fake_target import VOCAB, FakeTarget, decode
from tests.server.proposers import Proposer, knowing

Cost = Callable[[int], float]
Wish = Callable[[Client], None]

TOKENS = 200
LEVELS = 3
MOST_NODES = 512
SETTINGS = Settings(max_new_tokens=TOKENS)

COSTS: dict[str, Cost] = {
    "a GPU that is hardly busy": lambda tokens: 0.03,
    "stated costs": lambda tokens: max(0.03, 0.0001 * tokens),
    "half of it in tokens": lambda tokens: 0.03 + 0.0005 * tokens,
    "all of it in tokens": lambda tokens: 0.003 * tokens,
}


def drafting(propose: Proposer) -> Wish:
    def wish(client: Client) -> None:
        for _ in range(LEVELS):
            client.draft(propose)

    return wish


def greedy(propose: Proposer, wide: bool) -> Wish:
    """As many nodes as a tree may have, each claimed to be certain: chains of eight, or one chain of all."""

    def wish(client: Client) -> None:
        session = client.session
        first = session.tree.last_id + 1
        ids = range(first, first + MOST_NODES - len(session.tree))
        nodes = [
            GrownNode(id_, 0 if (wide and id_ % 8 == 0) or id_ == first else id_ - 1, id_ % VOCAB, 0.0) for id_ in ids
        ]
        if nodes:
            session.tree.grow(session.tree.frontier, nodes)
            client.say(Grow(session.turn, session.tree.frontier, tuple(nodes)))
        drafting(propose)(client)

    return wish


def speeds(cost: Cost, second: Callable[[Proposer], Wish]) -> tuple[float, float]:
    """Tokens per second of two clients until the first of them is done; both draft most of their answers right."""
    terms = replace(TERMS, end_tokens=frozenset(), max_nodes=MOST_NODES)
    sessions, fake_target, now = Sessions(terms, ServingLimits(8, 512), capacity=4000), FakeTarget(), 0.0
    clients, wishes = [], []
    for number, make in enumerate((drafting, second)):
        prompt = prompt_of(number, 20)
        client = Client(sessions, str(number))
        client.session._limits = replace(LIMITS, max_nodes=MOST_NODES)
        client.open(prompt, SETTINGS)
        clients.append(client)
        wishes.append(make(knowing(prompt + decode(prompt, TOKENS, end=-1), 0.8, VOCAB, number)))
    while not any(client.done for client in clients):
        batch = sessions.plan(now)
        assert batch is not None
        now += cost(batch.work.tokens)
        sessions.complete(batch, fake_target.verify(batch.scheduled), now)
        for client, wish in zip(clients, wishes, strict=True):
            client.hear()
            if not client.done:
                wish(client)
    modest, other = (len(client.session.answer) / now for client in clients)
    return modest, other


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_a_greedy_client_takes_nothing_from_a_modest_one(cost: Cost, wide: bool) -> None:
    fair, same = speeds(cost, drafting)
    assert same == pytest.approx(fair, rel=0.1)
    modest, other = speeds(cost, lambda propose: greedy(propose, wide))
    assert modest >= 0.8 * fair
    assert other <= 1.2 * fair
