from dataclasses import replace

import pytest

from netem.experiments.offline.offline_drafting import continue_offline, states_of

PROMPT = (5, 6, 7, 8)


@pytest.mark.parametrize("cut", [1, 7])
def test_a_draft_that_is_the_target_writes_the_targets_own_answer(bench, drafts, cut):
    own = bench.plain(PROMPT, 20).rounds.tokens
    written = continue_offline(bench, drafts["draft"], PROMPT, own[:cut], 20)
    assert written.tokens == own
    assert written.alone == len(own) - cut
    assert written.seconds > 0


def test_nothing_is_written_behind_an_end_token(bench, drafts):
    own = bench.plain(PROMPT, 20).rounds.tokens
    end = own[10]
    ending = replace(bench, card=replace(bench.card, end_tokens=(end,)))
    written = continue_offline(ending, drafts["draft"], PROMPT, own[:1], 20)
    assert written.tokens == own[: own.index(end) + 1]


@pytest.mark.parametrize("name", ["eagle", "moa, N=0", "moa, N=1"])
def test_drafts_that_need_state_write_on_with_that_of_all_processed_positions(bench, drafts, name):
    draft = drafts[name]
    written = continue_offline(bench, draft, PROMPT, (9, 10), 12)
    assert written.tokens[:2] == (9, 10)
    assert written.alone == 10
    tokens = tuple(range(2, 102))
    states = states_of(bench, draft, tokens, turn=0)
    exporters = bench.exporters_of(draft)
    assert sum(state.count for state in states) == 99 * len(exporters)
    assert {state.kind for state in states} == {exporter.kind for exporter in exporters}
