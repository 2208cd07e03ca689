import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.drafters.lookup import LookupDrafter
from common.protocol.errors import MisuseError
from common.weight_only.modes import AS_IS, MODES
from netem.experiments.sizes import measure
from netem.experiments.sizes.client import ClientReading, _level_seconds
from netem.experiments.sizes.draft_models import DRAFTS
from netem.experiments.sizes.ends import ClientRun, Ends, both_ends, client_alone, made, variants
from netem.experiments.sizes.memory import Resident
from netem.experiments.sizes.targets import LLAMA_8B_TARGET, QWEN_600M_TARGET, shrunk

MOA_0 = next(draft for draft in DRAFTS if draft.kind == "moa" and not draft.layers)
MOA_1 = next(draft for draft in DRAFTS if draft.kind == "moa" and draft.layers)


def ends(memory: int, server: Resident | None) -> Ends:
    reading = ClientReading(Resident(memory, memory + 10_000_000), level_s=0.05, ready_s=2.0)
    run = ClientRun(reading, bundle_bytes=300_000_000, answer="identical")
    return Ends(server, None if server is None else 0.25, {(MOA_0.name, AS_IS): run})


def test_memory_is_what_an_empty_process_does_not_take() -> None:
    whole = ends(900_000_000, Resident(5_000_000_000, 6_000_000_000))
    empty = ends(300_000_000, Resident(400_000_000, 450_000_000))
    (row,) = measure.make_rows(QWEN_600M_TARGET, [(MOA_0, AS_IS)], "float32", whole, empty)
    assert (row.client_rss_mb, row.client_peak_mb) == (600, 610)
    assert (row.server_rss_mb, row.server_peak_mb) == (4600, 5600)
    assert row.measured
    assert row.server_measured


def test_a_client_without_a_server_and_a_draft_without_weights() -> None:
    drafts = variants(DRAFTS, MODES)
    rows = measure.make_rows(LLAMA_8B_TARGET, drafts, "bfloat16", ends(900_000_000, None), ends(300_000_000, None))
    assert [(row.draft, row.weights) for row in rows if row.measured] == [("moa N=0", AS_IS)]
    assert [row.weights for row in rows if row.draft == "lookup"] == [AS_IS]
    assert {row.weights for row in rows if row.draft == "eagle3"} == set(MODES)
    assert not any(row.server_measured for row in rows)


def test_a_checkpoint_that_is_kept_takes_no_others_place(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with made(shrunk(QWEN_600M_TARGET), DRAFTS[:1], seed=1, whole=True, kept=kept) as folder:
        assert folder.checkpoint == kept / "target"
    assert (kept / "target" / "config.json").is_file()
    held = sorted(kept.rglob("*"))
    with (
        pytest.raises(MisuseError, match="exists"),
        made(shrunk(QWEN_600M_TARGET), DRAFTS[:1], 1, whole=True, kept=kept),
    ):
        pass
    assert sorted(kept.rglob("*")) == held


def test_a_drafter_that_proposes_nothing_has_levels_of_no_time() -> None:
    assert _level_seconds(LookupDrafter(), 1000) == 0


def test_drafts_and_targets_are_chosen_by_name() -> None:
    known = {"a": 1, "b": 2, "c": 3}
    assert measure._chosen("draft", known, ()) == known
    assert list(measure._chosen("draft", known, ("c", "a"))) == ["a", "c"]
    with pytest.raises(MisuseError, match="no target 'd'; choose from a, b, c"):
        measure._chosen("target", known, ("a", "d"))


@pytest.mark.parametrize(("available_gb", "fits"), [(21, True), (17, False)])
def test_both_ends_must_fit(available_gb: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(available=available_gb * 10**9)
    monkeypatch.setattr(measure.psutil, "virtual_memory", lambda: memory)
    assert measure._fits(LLAMA_8B_TARGET, [MOA_0], "bfloat16") is fits


@pytest.mark.usefixtures("forked_pools", "forked_servers")
def test_processes_of_both_ends_are_measured_and_their_answer_is_generates() -> None:
    async def run() -> Ends:
        with made(shrunk(QWEN_600M_TARGET), [MOA_1], seed=1, whole=True) as folder:
            return await both_ends(folder, "float32", "proxy")

    both = asyncio.run(run())
    ((variant, client),) = both.clients.items()
    assert variant == (MOA_1.name, AS_IS)
    assert client.answer == "identical"
    assert client.bundle_bytes > 100_000
    assert 0 < client.reading.level_s < client.reading.ready_s
    assert both.server is not None
    assert both.server.peak >= both.server.now > 100_000_000
    assert both.pass_s is not None


@pytest.mark.usefixtures("forked_pools")
def test_a_client_drafts_without_a_server_in_every_weights_mode() -> None:
    async def run() -> Ends:
        with made(shrunk(LLAMA_8B_TARGET), [MOA_1], seed=1, whole=False) as folder:
            return await client_alone(folder, "float32", MODES)

    clients = asyncio.run(run()).clients
    assert list(clients) == [(MOA_1.name, mode) for mode in MODES]
    assert all(0 < client.reading.level_s < client.reading.ready_s for client in clients.values())
    as_is, int8, int4 = (client.bundle_bytes for client in clients.values())
    assert as_is > int8 > int4
