"""Sessions share the K/V of common prefixes: a token is computed once, whoever asks, and answers are the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.protocol.client_session import Limits
from common.protocol.errors import PeerError
from common.protocol.messages import FailureCode, Settings
from common.protocol.prefix import common_prefix
from server.passes import prefix_tree
from server.passes.batch import PlannedPass
from server.passes.scheduler import LEAST_CHUNK, PROMPT_PART
from server.sessions.entry import SessionEntry
from server.sessions.sessions import Sessions
from server.sessions.shared_prefixes import LEAST_RUN
from tests.server.clients_of_sessions import SERVING_LIMITS, TERMS, Client, one_pass, prompt_of, returned
from tests.server.fake_target import STATE, STATE_KINDS, VOCAB, FakeTarget, decode
from tests.server.slot_account import below, check_slots

LONG = replace(TERMS, context=4096, end_tokens=frozenset(), state_kinds=lambda request: STATE_KINDS)
LIMITS = Limits("f", VOCAB, 4096, 64)
TRUNK = prompt_of(0, 200)
ANSWER = Settings(max_new_tokens=6)


class Passes:
    """Sessions and their passes; counts the tokens that these compute."""

    def __init__(self, capacity: int = 60_000, pass_tokens: int = 512, share_prefixes: str = "client"):
        limits = replace(SERVING_LIMITS, pass_tokens=pass_tokens, max_sessions=64, max_running=64, lease_seconds=60.0)
        self.sessions = Sessions(LONG, limits, capacity, share_prefixes=share_prefixes)
        self.fake_target, self.computed = FakeTarget(), 0

    def open(self, name: str, prompt: list[int], owner: str = "", settings: Settings = ANSWER) -> Client:
        client = Client(self.sessions, name, client=owner, limits=LIMITS)
        client.open(prompt, settings)
        return client

    def run(self, now: float = 0.0) -> PlannedPass[SessionEntry]:
        batch = self.sessions.plan(now)
        assert batch is not None
        self.computed += sum(len(each.chain) for each in batch.scheduled)
        self.sessions.complete(batch, self.fake_target.verify(batch.scheduled), now)
        return batch

    def answer(self, *clients: Client) -> None:
        while not all(client.done for client in clients):
            self.run()
            for client in clients:
                client.hear()
        check_slots(self.sessions, self.fake_target)

    def answered(self, name: str, prompt: list[int], owner: str = "") -> int:
        """The tokens of the prompt that are computed for a new session that asks it."""
        before = self.computed
        client = self.open(name, prompt, owner)
        self.answer(client)
        assert client.session.answer == decode(prompt, ANSWER.max_new_tokens, end=-1)
        return self.computed - before - (ANSWER.max_new_tokens - 1)


@pytest.mark.parametrize(("at_once", "pass_tokens"), [(True, 512), (True, 24), (False, 512)])
def test_a_system_prompt_of_sixteen_clients_is_computed_once(at_once: bool, pass_tokens: int) -> None:
    system = prompt_of(0, 2000 if at_once and pass_tokens == 512 else 300)
    prompts = [system + prompt_of(index, 40) for index in range(1, 17)]
    passes = Passes(pass_tokens=pass_tokens)
    clients = []
    for index, prompt in enumerate(prompts):
        clients.append(passes.open(str(index), prompt))
        if not at_once:
            passes.answer(clients[-1])
    passes.answer(*clients)
    for client, prompt in zip(clients, prompts, strict=True):
        assert client.session.answer == decode(prompt, ANSWER.max_new_tokens, end=-1)
    decoded = 16 * (ANSWER.max_new_tokens - 1)
    assert passes.computed - decoded <= len(system) + 16 * 40
    counters = passes.sessions.counters
    assert (counters.prefix_cache_hits, counters.recomputed_tokens) == (pytest.approx(15 * len(system), abs=64), 0)
    assert counters.prefix_cache_hits <= counters.prefix_cache_queries == sum(len(prompt) - 1 for prompt in prompts)


@pytest.mark.parametrize(
    ("share_prefixes", "computed"), [("client", [220, 20, 220]), ("server", [220, 20, 1]), ("never", [220, 220, 220])]
)
def test_owners_share_only_where_the_operator_says_so(share_prefixes: str, computed: list[int]) -> None:
    passes = Passes(share_prefixes=share_prefixes)
    mine = TRUNK + prompt_of(2, 20)
    asked = [("a", TRUNK + prompt_of(1, 20), "alice"), ("b", mine, "alice"), ("c", mine, "bob")]
    assert [passes.answered(*each) for each in asked] == computed


@pytest.mark.parametrize(("share_prefixes", "is_accepted"), [("client", True), ("never", False)])
def test_what_running_answers_share_is_promised_once(share_prefixes: str, is_accepted: bool) -> None:
    """Two answers of 230 tokens share 200; a third needs 230 of 600 slots."""
    passes, settings = Passes(capacity=600, share_prefixes=share_prefixes), Settings(max_new_tokens=10)
    clients = [passes.open(str(index), TRUNK + prompt_of(index, 20), settings=settings) for index in (1, 2)]
    while not all(client.session.answer for client in clients):
        passes.run()
        for client in clients:
            client.hear()
    third = passes.open("3", TRUNK + prompt_of(3, 20), settings=settings)
    assert (third.failed is None) == is_accepted
    passes.answer(*clients, *[third] * is_accepted)


def test_owners_do_not_wait_for_each_other() -> None:
    passes = Passes()
    for owner in ("alice", "bob"):
        passes.open(owner, TRUNK, owner)
    assert len(passes.run().owners) == 2


@pytest.mark.parametrize(("length", "in_first_pass"), [(LEAST_RUN, 2), (LEAST_RUN + 1, 1)])
def test_nobody_waits_for_fewer_tokens_than_are_given_at_a_time(length: int, in_first_pass: int) -> None:
    passes = Passes()
    for name in ("first", "second"):
        passes.open(name, prompt_of(0, length))
    assert len(passes.run().owners) == in_first_pass


def test_earlier_turns_are_found_by_a_new_session() -> None:
    passes = Passes()
    first = passes.open("first", TRUNK, settings=Settings(max_new_tokens=70))
    passes.answer(first)
    passes.sessions.leave(first, 0.0)
    assert passes.answered("second", [*first.session.tree.tokens, 1, 2, 3]) <= 64 + 3


def test_a_next_turn_after_its_prefix_was_evicted_is_computed_again() -> None:
    passes = Passes(capacity=400)
    first = passes.open("first", TRUNK)
    passes.answer(first)
    for index in range(1, 4):
        passes.answered(str(index), prompt_of(index, 300))
    assert len(passes.sessions._registry.entry_of(first).sequence) == 0  # type: ignore[union-attr]
    first.say(first.session.extend(first.session.tree.frontier, [5, 6], ANSWER))
    prompt = list(first.session.tree.tokens)
    passes.answer(first)
    assert first.session.answer == decode(prompt, ANSWER.max_new_tokens, end=-1)
    assert passes.sessions.counters.recomputed_tokens == 0


def test_a_next_turn_that_rewrites_history_leaves_what_others_share() -> None:
    passes = Passes()
    first, second = (passes.open(name, TRUNK) for name in ("first", "second"))
    passes.answer(first, second)
    first.say(first.session.extend(150, prompt_of(7, 60), ANSWER))
    prompt = TRUNK[:150] + prompt_of(7, 60)
    before = passes.computed
    passes.answer(first)
    assert first.session.answer == decode(prompt, ANSWER.max_new_tokens, end=-1)
    assert passes.computed - before == 60 + ANSWER.max_new_tokens - 1
    assert passes.answered("third", TRUNK) == 1


def test_twins_leave_few_short_nodes_in_the_cache() -> None:
    """Of a prompt its rest and its last token are short, and nothing of an answer but its end."""
    passes = Passes()
    passes.answer(*[passes.open(name, TRUNK, settings=Settings(max_new_tokens=150)) for name in ("first", "second")])
    lengths = [len(node.tokens) for root in passes.sessions._prefixes.cache._roots.values() for node in below(root)]
    assert sum(lengths) >= len(TRUNK) + 2 * LEAST_RUN
    assert sum(length < LEAST_RUN for length in lengths) <= 3


def leaves(passes: Passes, client: Client) -> None:
    passes.sessions.leave(client, 0.0)


def cancels(passes: Passes, client: Client) -> None:
    client.say(client.session.cancel())


def fails(passes: Passes, client: Client) -> None:
    passes.sessions.fail(client, PeerError("it is over", FailureCode.INTERNAL))


@pytest.mark.parametrize("goes", [leaves, cancels, fails])
def test_who_waits_goes_on_where_the_one_that_computes_goes(goes) -> None:
    passes = Passes(pass_tokens=72)
    first, *others = (passes.open(str(index), [*TRUNK, index, index]) for index in range(3))
    assert [entry.session.id for entry in passes.run().owners] == [first.session.id]
    goes(passes, first)
    passes.answer(*others)
    for index, client in enumerate(others, start=1):
        assert client.session.answer == decode([*TRUNK, index, index], ANSWER.max_new_tokens, end=-1)
    assert passes.computed <= 72 + (len(TRUNK) - 72) + 3 * 2 + 2 * 5


def test_the_oldest_prompt_keeps_its_part_while_it_waits_for_a_newer_one() -> None:
    passes, prompt = Passes(pass_tokens=LEAST_CHUNK), TRUNK[:100]
    oldest = passes.open("oldest", prompt)
    passes.run()
    passes.sessions.leave(oldest, 0.0)
    for index in range(12):
        later = Client(passes.sessions, str(index), limits=LIMITS)
        later.say(later.session.open(prompt_of(index + 1, 300), ANSWER), 5.0)
    newest = Client(passes.sessions, "newest", limits=LIMITS)
    newest.say(newest.session.open(prompt, ANSWER), 10.0)
    entry = passes.sessions._registry.entry_of(newest)
    assert entry is not None
    while len(entry.sequence) <= LEAST_CHUNK:
        passes.run(now=10.0)
    oldest = returned(oldest)
    for _ in range(len(prompt) // (LEAST_CHUNK // PROMPT_PART) + 1 + 1):
        passes.run(now=10.0)
    oldest.hear()
    assert oldest.session.answer


def test_nobody_waits_for_a_few_tokens_that_all_prompts_begin_with() -> None:
    passes = Passes()
    for index in range(1, 4):
        passes.open(str(index), TRUNK[:20] + prompt_of(index, 100))
    assert len(passes.run().owners) == 3


def test_a_prompt_is_looked_up_once_and_again_only_when_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(cached: Sequence[int], tokens: Sequence[int]) -> int:
        compared.append(len(tokens))
        return common_prefix(cached, tokens)

    monkeypatch.setattr(prefix_tree, "common_prefix", counted)
    passes = Passes(pass_tokens=16)
    clients = [passes.open(str(index), TRUNK + prompt_of(index, 20)) for index in range(1, 5)]
    passes.answer(*clients)
    # Four sessions, each at most once for every run of 64 tokens that became cached, and once when it gives its own.
    assert len(compared) <= 4 * (220 // 64 + 2 + 3)
    assert sum(compared) <= 4 * 2 * 220


@pytest.mark.parametrize(("share_prefixes", "made"), [("client", 2000 + 16 * 40), ("never", 16 * 2040)])
def test_draft_state_of_a_system_prompt_of_sixteen_clients_is_made_once(share_prefixes: str, made: int) -> None:
    """Their frames begin at each session's own end, and clients acknowledge them one by one."""
    passes = Passes(share_prefixes=share_prefixes)
    system = prompt_of(0, 2000)
    clients = [Client(passes.sessions, str(index), STATE, limits=LIMITS) for index in range(16)]
    for index, client in enumerate(clients):
        client.open(system + prompt_of(index + 1, 40 - index), Settings(max_new_tokens=0))
    while not all(client.done for client in clients):
        one_pass(passes.sessions, passes.fake_target)
        for client in clients:
            client.hear()
    assert sum(state.count for client in clients for state in client.states) >= 2 * 16 * 2000
    kinds = len(STATE_KINDS)
    assert made - 16 * 40 <= passes.fake_target.states_made / kinds <= made


def test_draft_state_of_a_shared_prefix_is_that_of_its_tokens_and_a_turn_of_state_alone_ends() -> None:
    passes = Passes()
    passes.answered("first", TRUNK)
    client = Client(passes.sessions, "second", STATE, limits=LIMITS)
    prompt = TRUNK + prompt_of(1, 5)
    client.open(prompt, Settings(max_new_tokens=0))
    computed = passes.sessions.counters.packed_tokens
    for _ in range(200):
        if client.done:
            break
        one_pass(passes.sessions, passes.fake_target)
        client.hear()
    assert client.session.finished is not None
    received = {
        state.start + index: token
        for state in client.states
        if state.kind == "lsa"
        for index, token in enumerate(state.payload)
    }
    assert [received[position] for position in range(len(prompt))] == prompt
    assert passes.sessions.counters.packed_tokens - computed == len(prompt) - len(TRUNK)
    assert passes.sessions.counters.prefix_cache_hits == len(TRUNK)
