import itertools

import pytest

from common.draft_kinds import DRAFT_KINDS
from common.protocol.draft_state import BITS, WIRE_DTYPES
from common.protocol.errors import MisuseError
from netem.experiments.one_device import messages
from netem.experiments.one_device.byte_counts import ANSWER, NODES, PROMPT, TOKENS, ByteCounts
from netem.experiments.one_device.compared_drafts import ComparedDraft
from netem.experiments.one_device.messages import MessageSizes, Workload, computed_rows, make_report
from tests.netem.experiments.one_device.running import check, run_quick


def test_the_computed_rows_have_the_published_sizes():
    sizes = {row[1]: row[3] for row in computed_rows()}
    assert sizes["all keys and values, float16"] == "131,072"
    assert sizes["eagle, float16"] == "8,192"
    assert sizes["moa N=0, float16"] == "4,096"
    assert sizes["moa N=3, float16"] == "16,384"
    assert sizes["moa N=0, int8"] == "2,176"


def test_a_measurement_is_told_by_kind_and_token():
    counts = ByteCounts()
    counts.prompt_length = 10
    for part, size in ((PROMPT, 350), (ANSWER, 140)):
        counts.positions[part, "lsa"] = size // 35
        counts.state_bytes[part, "lsa"] = size
    counts.down[TOKENS] = 24
    counts.up[NODES] = 48
    row = MessageSizes(ComparedDraft("moa, N=0", DRAFT_KINDS["moa"], None), "int8", {"lsa": 32}, counts, committed=4)
    report = make_report([row], {"code": 1}, max_new_tokens=4)
    check("messages", report)
    assert report.rows[0][1:] == ["moa, N=0, int8", "32", "lsa 35", "lsa 35", "1.09", "6.0", "12.0", "0.0"]
    assert report.results["measured"]["moa, N=0 int8"]["bytes_per_number"] == pytest.approx(35 / 32)


def test_state_is_told_for_the_tokens_that_get_it_and_says_so():
    counts = ByteCounts()
    counts.positions[ANSWER, "lsa"], counts.state_bytes[ANSWER, "lsa"] = 3, 120
    row = MessageSizes(ComparedDraft("moa, N=0", DRAFT_KINDS["moa"], None), "int8", {"lsa": 32}, counts, committed=4)
    report = make_report([row], {"code": 1}, max_new_tokens=4)
    told = dict(zip(report.headings, report.rows[0], strict=True))
    assert told["state, B/answer token that gets it"] == "lsa 40", "of four tokens the last has none"
    assert "told for each token that gets it" in report.remarks[0]


@pytest.mark.usefixtures("forked_servers")
async def test_the_whole_stack_is_counted(request_for, monkeypatch):
    monkeypatch.setattr(messages, "QUICK", Workload(prompts=1, tokens=6))
    report = await run_quick(messages, request_for("lookup", "moa:1"))
    measured = report.results["measured"]
    assert list(measured) == ["lookup", *(f"moa, N=1 {dtype}" for dtype in WIRE_DTYPES)]
    assert measured["lookup"]["state_bytes_per_prompt_token"] == {}
    by_bits = [measured[f"moa, N=1 {dtype}"] for dtype in sorted(WIRE_DTYPES, key=BITS.__getitem__)]
    assert all(set(each["state_bytes_per_prompt_token"]) == {"lsa", "kv"} for each in by_bits)
    for fewer, more in itertools.pairwise(by_bits):
        assert fewer["bytes_per_number"] < more["bytes_per_number"]
    assert all(each["bytes_up"]["nodes"] > 0 for each in by_bits)


async def test_drafts_that_draft_together_are_refused(request_for):
    with pytest.raises(MisuseError, match=r"one draft at a time, not for 'moa, N=0\+lookup'"):
        await messages.measure(request_for("moa+lookup"), lambda doing, share: None)
