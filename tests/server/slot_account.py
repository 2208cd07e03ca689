"""What becomes of every slot of some sessions: free, of the prefix cache, or a session's own; and what it holds."""

from collections.abc import Iterator, Sequence

from server.passes.prefix_tree import PrefixNode
from server.sessions.entry import SessionEntry
from server.sessions.sessions import Sessions
from tests.server.fake_target import FakeTarget


def check_slots(sessions: Sessions, fake_target: FakeTarget, in_pass: Sequence[int] = ()) -> None:
    """Fails where a slot is lost or belongs to two, a node of the cache counts other users than it has, or a slot holds
    another token than that of its position. `in_pass`: the slots of a pass that runs."""
    pool, cache = sessions._pool, sessions._prefixes.cache
    entries = [*sessions._registry.entries, *sessions._registry.leases.entries]
    free = [slot for start, end in zip(pool._starts, pool._ends, strict=True) for slot in range(start, end)]
    own = [slot for entry in entries for slot in entry.sequence.slots[entry.sequence.shared :].tolist()]
    nodes = [node for root in list(cache._roots.values()) for node in below(root)]
    cached = [slot for node in nodes for slot in node.slots]
    assert sorted([*free, *own, *cached, *in_pass]) == list(range(pool.capacity))
    assert pool.free == len(free)
    users = {id(node): 0 for node in nodes}
    for entry in entries:
        for node in _path(entry.sequence._cached):
            users[id(node)] += 1
    assert {id(node): node.users for node in nodes} == users
    idle = [node for node in nodes if not node.users]
    assert set(map(id, cache._idle)) == set(map(id, idle))
    assert cache.evictable == sum(len(node.slots) for node in idle)
    for node in nodes:
        assert len(node.slots) == len(node.tokens) == node.end - node.start > 0
        _check_tokens(fake_target, node.slots, node.tokens)
    for entry in entries:
        _check_entry(entry, fake_target)


def _check_entry(entry: SessionEntry, fake_target: FakeTarget) -> None:
    sequence, tokens = entry.sequence, entry.session.tree.tokens
    assert len(sequence) == entry.session.processed
    _check_tokens(fake_target, sequence.slots.tolist(), tokens[: len(sequence)])
    path = [token for node in reversed(list(_path(sequence._cached))) for token in node.tokens]
    assert path == tokens[: sequence.shared]


def _check_tokens(fake_target: FakeTarget, slots: Sequence[int], tokens: Sequence[int]) -> None:
    assert [fake_target._held[slot] for slot in slots] == list(tokens)


def below(node: PrefixNode) -> Iterator[PrefixNode]:
    """All nodes under one, which are checked to know their parent."""
    for child in node.children.values():
        assert child.parent is node
        yield child
        yield from below(child)


def _path(node: PrefixNode) -> Iterator[PrefixNode]:
    while node.parent is not None:
        yield node
        node = node.parent
