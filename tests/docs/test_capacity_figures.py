"""The figures of docs/scaling.md on the clients of one GPU are those of docs/benchmarks/capacity."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LABELS = {
    "plain decoding": "plain decoding",
    "server-side speculation": "server-side speculation, one session at a time",
    "batched rounds, computed": "server-side speculation in batched rounds, computed",
    "eager": "`eager`",
    "patient": "`patient`",
    "auto": "`auto`",
}


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join((ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def measured() -> Any:
    return json.loads((ROOT / "docs" / "benchmarks" / "capacity" / "results.json").read_text())["results"]


def speeds(measured: Any, link: str) -> dict[tuple[str, int], tuple[float, float]]:
    """Tokens/s of a client and the 95th percentile of its gaps in ms, by system and clients at once."""
    chosen = [row for row in measured["rows"] if (row["link"], row["asking"], row["replicas"]) == (link, "always", 1)]
    return {(row["system"], row["clients"]): (row["tokens_s_client"], row["gap_p95_ms"]) for row in chosen}


@pytest.mark.parametrize(("system", "label"), LABELS.items())
def test_a_row_of_the_table(system: str, label: str, page: str, measured: Any) -> None:
    found = speeds(measured, "lan")
    cells = ["{:.0f}, {:.0f} ms".format(*found[system, clients]) for clients in (5, 15, 60, 120, 250, 380)]
    assert f"| {label} | {' | '.join(cells)} |" in page


def test_clients_at_a_bound_of_gaps_and_of_speed(page: str, measured: Any) -> None:
    def most(system: str, bound: str, link: str = "lan") -> str:
        return f"{measured['most_clients'][system][link][bound][0]:.0f}"

    rounds = "batched rounds, computed"
    assert f"plain decoding serves about {most('plain decoding', 'gap')} clients**" in page
    assert (
        f"at their best {most(rounds, 'gap')}, `auto` {most('auto', 'gap')} and `eager` {most('eager', 'gap')}" in page
    )
    assert f"over 5G `auto` {most('auto', 'gap', '5g')} and `eager` {most('eager', 'gap', '5g')}" in page
    links = ("lan", "5g", "4g", "lte-drive")
    eager, auto, patient = ([most(each, "speed", link) for link in links] for each in ("eager", "auto", "patient"))
    assert (
        f"`eager` {eager[0]} on the office network, {eager[1]} over 5G, {eager[2]} over 4G and {eager[3]} over" in page
    )
    for name, counts in (("auto", auto), ("patient", patient)):
        assert f"`{name}` {counts[0]}, {counts[1]}, {counts[2]} and {counts[3]}" in page
    assert f"at their best, serve {most(rounds, 'speed')} clients at that speed" in page


def test_eager_against_batched_rounds(page: str, measured: Any) -> None:
    rounds = speeds(measured, "lan")

    def ratio(link: str, clients: int) -> str:
        return f"{speeds(measured, link)['eager', clients][0] / rounds['batched rounds, computed', clients][0]:.2f}"

    assert f"office network ({ratio('lan', 60)} and {ratio('lan', 120)} times)" in page
    assert f"over 5G ({ratio('5g', 60)} and {ratio('5g', 120)}), and over 4G with 120 ({ratio('4g', 120)})" in page
    few = {link: {ratio(link, clients) for clients in (5, 15)} for link in ("lan", "4g")}
    assert f"it is {few['lan'].pop()} times as fast on the office network" in page
    assert f"{ratio('5g', 5)} and {ratio('5g', 15)} over 5G and {few['4g'].pop()} over 4G" in page
    assert not any(few.values())


def test_the_simulation_against_the_real_models(page: str, measured: Any) -> None:
    def span(system: str) -> list[str]:
        ratios = [each["ratio"] for each in measured["checked"] if each["system"] == system]
        return [f"{min(ratios):.2f}", f"{max(ratios):.2f}"]

    eager, auto = span("eager"), span("auto")
    assert span("plain decoding") == ["1.00", "1.00"]
    assert f"{eager[0]} to {eager[1]} for `eager` and {auto[0]} to {auto[1]} for `auto`" in page
