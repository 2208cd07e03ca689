from dataclasses import replace

import pytest

from common.weight_only.modes import AS_IS
from netem.experiments.one_device.dimensions import LLAMA_1B, LLAMA_8B, LOOKUP, DraftDimensions, eagle3
from netem.experiments.sizes.rows import ClientNumbers, Place, Row, ServerNumbers, in_words, make_row, ratios

CLIENT = ClientNumbers(500_000_000, 700_000_000, 400_000_000, level_s=0.05, ready_s=2.0)
SERVER = ServerNumbers(3_000_000_000, 4_000_000_000, pass_s=0.25)
RATE = 20e6


def row(client: ClientNumbers | None = CLIENT, server: ServerNumbers | None = SERVER, weights: str = AS_IS) -> Row:
    draft = eagle3(LLAMA_1B)
    return make_row(Place(LLAMA_1B, draft, weights, "bfloat16"), [draft], client, server, "identical", RATE)


def test_what_was_measured_is_told_in_its_units() -> None:
    told = row().as_dict()
    assert told["measured"]
    assert told["server_measured"]
    assert (told["client_rss_mb"], told["client_peak_mb"], told["server_rss_mb"]) == (500, 700, 3000)
    assert (told["level_ms"], told["ready_s"], told["pass_ms"]) == (50, 2, 250)
    assert told["bundle_link_s"] == 8 * 400_000_000 / RATE


def test_what_was_not_measured_is_computed_and_says_so() -> None:
    told = row(client=None, server=None)
    assert not told.measured
    assert not told.server_measured
    assert told.client_rss_mb == told.client_mb_computed
    assert told.server_rss_mb == told.server_mb_computed
    assert told.bundle_mb == told.bundle_mb_computed
    assert told.level_ms is told.pass_ms is told.ready_s is None


def test_each_side_is_computed_alone() -> None:
    told = row(server=None)
    assert told.measured
    assert not told.server_measured
    assert told.client_rss_mb == 500


def weights_mb(draft: DraftDimensions, weights: str, dtype: str) -> float:
    """Of a client, without what does not depend on the dtype of weights."""
    place, none = (Place(LLAMA_1B, each, weights, dtype) for each in (draft, replace(draft, client=0)))
    return (place.client_bytes - none.client_bytes) / 1e6


def test_weights_take_as_much_as_their_format_says() -> None:
    draft = eagle3(LLAMA_1B)
    plain = weights_mb(draft, AS_IS, "bfloat16")
    assert weights_mb(draft, AS_IS, "float32") == pytest.approx(2 * plain)
    assert weights_mb(draft, "int8", "bfloat16") == pytest.approx(plain / 2)
    assert plain / 4 < weights_mb(draft, "int4", "bfloat16") < plain / 3


def test_a_head_that_the_draft_replaces_and_an_embedding_that_is_mapped_take_no_memory() -> None:
    drafts = eagle3(LLAMA_8B), replace(eagle3(LLAMA_8B), own_head=False)
    as_is, with_head = (Place(LLAMA_8B, draft, AS_IS, "bfloat16").client_bytes for draft in drafts)
    assert with_head - as_is == 2 * LLAMA_8B.head_parameters
    int8, with_head = (Place(LLAMA_8B, draft, "int8", "bfloat16").client_bytes for draft in drafts)
    assert with_head - int8 == LLAMA_8B.head_parameters
    assert Place(LLAMA_8B, drafts[0], "int8", "bfloat16").bundle_bytes - int8 > LLAMA_8B.embedding_and_head / 2


def test_a_bundle_travels_as_it_is_stored_whatever_the_client_computes_in() -> None:
    draft = eagle3(LLAMA_8B)
    sizes = {dtype: Place(LLAMA_8B, draft, AS_IS, dtype).bundle_bytes for dtype in ("bfloat16", "float32")}
    assert sizes["bfloat16"] == sizes["float32"]


def test_ratios_leave_out_what_was_computed_and_count_a_server_once() -> None:
    rows = [row(), replace(row(), draft="moa"), row(client=None, server=None), replace(row(), draft=LOOKUP.name)]
    told = ratios(rows)
    assert len(told["client"]) == len(told["bundle"]) == 2
    assert told["client"][0] == pytest.approx(500 / row().client_mb_computed)
    assert told["server"] == [pytest.approx(3000 / row().server_mb_computed)]


def test_ratios_in_words() -> None:
    assert in_words([1.0, 1.5, 0.5]) == "1.00 in the median, 0.50 to 1.50"
    assert in_words([]) == "no row"
