"""The figures in the README and docs/drafts.md are those of docs/benchmarks, and the picture shows them."""

import json
import re
import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image

from common.draft_kinds import DRAFT_KINDS, STATELESS_KINDS

ROOT = Path(__file__).parents[2]

_TOLERANCE = 0.05  # of the experiment `clock`


def results(experiment: str) -> dict[str, Any]:
    path = ROOT / "docs" / "benchmarks" / experiment / "results.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"]


@pytest.fixture(scope="module")
def readme() -> str:
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_lockstep_with_longer_rounds_over_4g(readme):
    measured = results("network")["links"]["4g"]["systems"]
    longest = measured["lock-step moa, long"]["tokens_per_second"]
    assert f"with 48 levels, the best over 4G and 5G, they reach {longest:.0f} tokens/s" in readme
    assert f"cloud decoding reaches {measured['cloud decoding']['tokens_per_second']:.0f}" in readme


def test_the_accept_length_of_the_picture(readme):
    measured = results("network")["links"]["4g"]["systems"]["auto"]
    assert f"commits {measured['accept_length']:.1f} tokens per pass over 4G" in readme


def test_the_number_of_kinds(readme):
    assert f"[{len(DRAFT_KINDS)} kinds of drafters]" in readme


def over_speculation_at_the_server(run: str) -> dict[str, float]:
    """How many times the tokens per second of speculation at the server `auto` has, by link."""
    links = results(run)["links"]
    return {
        link: links[link]["systems"]["auto"]["tokens_per_second"]
        / links[link]["systems"]["server-side speculation"]["tokens_per_second"]
        for link in ("5g", "4g", "satellite")
    }


def test_speculation_beside_the_target_with_drafts_from_other_seeds(readme):
    runs = [over_speculation_at_the_server(f"network-seed-{seed}") for seed in (8, 9)]
    ranges = [" to ".join(sorted({f"{each[link]:.2f}" for each in runs})) for link in runs[0]]
    assert f"two other seeds it is {ranges[0]}, {ranges[1]} and {ranges[2]}" in readme


def test_a_server_that_drafts_during_its_passes(readme):
    links = results("network")["links"]
    alone = [
        links[link]["systems"]["server-side, overlapped"]["tokens_per_second"] for link in ("5g", "4g", "satellite")
    ]
    assert (
        f"it reaches {alone[0]:.0f}, {alone[1]:.0f} and {alone[2]:.0f} tokens/s over 5G, 4G and the satellite" in readme
    )


def with_a_laptop(run: str) -> list[float]:
    """On each link of the picture: how many times as fast a server that drafts during its passes is with it."""
    return [
        link["systems"]["auto"]["tokens_per_second"] / link["systems"]["server-side, overlapped"]["tokens_per_second"]
        for link in results(run)["links"].values()
    ]


def test_what_the_laptop_adds_on_all_links(readme):
    times, seeds = with_a_laptop("network"), [*with_a_laptop("network-seed-8"), *with_a_laptop("network-seed-9")]
    assert len(times) == 5
    assert f"it is {min(times):.2f} to {max(times):.2f} times as fast on the picture's five links" in readme
    assert f"from the other two seeds it is {min(seeds):.2f} to {max(seeds):.2f} times as fast" in readme


def under_load() -> list[float]:
    """With 8, 16 and 64 clients: how many times as many tokens each gets with the laptops' drafts."""
    loads = {load["amount"]: load["systems"] for load in results("load")["loads"] if load["of"] == "clients"}
    speeds = [
        [loads[clients][system]["tokens_per_second_of_a_client"] for system in ("auto", "server-side, overlapped")]
        for clients in (8, 16, 64)
    ]
    return [both / alone for both, alone in speeds]


def test_what_the_laptop_adds_to_a_server_under_load(readme):
    times = [f"{each:.1f}" for each in under_load()]
    assert (
        f"with 8, 16 and 64 clients at once each gets {times[0]}, {times[1]} and {times[2]} times as many tokens"
        in readme
    )


def test_speculation_beside_the_target(readme):
    ratios = over_speculation_at_the_server("network")
    assert (
        f"{ratios['5g']:.2f} times the tokens per second over 5G, {ratios['4g']:.2f} over 4G and "
        f"{ratios['satellite']:.2f} over the satellite" in readme
    )


def test_what_is_said_in_short_is_said_in_full(readme):
    ratios, adds = over_speculation_at_the_server("network"), max(with_a_laptop("network")) - 1
    times = [round(each, 1) for each in under_load()]
    assert (
        f"has {ratios['5g']:.2f}, {ratios['4g']:.2f} and {ratios['satellite']:.2f} times the tokens per second of "
        "speculation on the server alone, over 5G, 4G and the satellite" in readme
    )
    assert f"one client's own drafts add at most {adds:.0%}" in readme
    assert f"those of 8 to 64 clients {100 * (times[0] - 1):.0f} to {times[-1] - 1:.0%}" in readme
    cut = results("torture")
    answers = sum(sum(rule.values()) for rule in cut["verdicts"].values())
    assert (
        f"Of {answers:,} answers {answers - cut['never_cut']} had their link or server cut, and all {answers:,} were "
        "identical" in readme
    )


def test_passes_on_a_gpu(readme):
    rows = results("gpu-engine-llama")["rows"]
    alone, many = (
        next(row for row in rows if (row["sessions"], row["context"], row["rows"]) == (sessions, 512, 1))
        for sessions in (1, 64)
    )
    assert f"{alone['replayed_ms']:.1f} ms for one session at 512 tokens" in readme
    assert f"and {many['replayed_ms']:.1f} ms for 64 sessions" in readme
    assert f"kernel by kernel {alone['ours_ms']:.1f} and {many['ours_ms']:.1f}" in readme
    assert f"cached step, launched too, takes {alone['transformers_ms']:.1f} for one" in readme


def test_text_that_is_harder_to_draft(readme):
    points = [
        point
        for point in results("sets")["points"]
        if (point["link"], point["system"]) == ("4g", "auto") and point["category"] != "code"
    ]
    speeds = [point["measured"]["tokens_per_second"] for point in points]
    assert len({point["category"] for point in points}) == 5
    cloud = results("network")["links"]["4g"]["systems"]["cloud decoding"]["tokens_per_second"]
    assert f"{min(speeds):.0f} to {max(speeds):.0f} tokens/s over 4G on five other kinds of prompts" in readme
    assert f"where cloud decoding reaches {cloud:.0f} on code" in readme


def test_the_virtual_clock_against_real_time(readme):
    points = results("clock")["points"]
    ratios = [point["ratio"] for point in points if point["counts"]]
    assert f"In {len(ratios)} of {len(points)} comparisons our two cores kept the stated costs" in readme
    assert f"{min(ratios):.2f} to {max(ratios):.2f} times as fast as real time" in readme
    (outside,) = (ratio for ratio in ratios if abs(ratio - 1) > _TOLERANCE)
    assert outside < 0.95
    assert "not valid for the one below 0.95" in readme


def test_real_time_at_the_pictures_costs_with_recorded_acceptance(readme):
    points = results("clock-replayed")["points"]
    assert {point["costs"] for point in points} == {1}
    ratios = [point["ratio"] for point in points if point["counts"]]
    near = [ratio for ratio in ratios if abs(ratio - 1) <= _TOLERANCE]
    assert f"they kept them in {len(ratios)} of {len(points)} comparisons" in readme
    assert (
        f"is {min(ratios):.2f} to {max(ratios):.2f} times as fast as real time, and for {len(near)} within 5%" in readme
    )
    assert len(ratios) - len(near) == 5
    assert "not valid for the other five" in readme


def test_real_time_at_costs_that_two_cores_do_not_keep(readme):
    points = {
        point["link"]: point
        for point in results("clock")["points"]
        if (point["system"], point["clients"], point["costs"]) == ("auto", 1, 1)
    }
    chosen = [points[link] for link in ("5g", "4g", "satellite")]
    assert not any(point["counts"] for point in chosen)
    real, virtual = (
        "{:.0f}, {:.0f} and {:.0f}".format(*speeds)
        for speeds in ([point["virtual"] / point["ratio"] for point in chosen], [point["virtual"] for point in chosen])
    )
    assert f"real time was {real} tokens/s over 5G, 4G and the satellite where {virtual} are simulated" in readme
    late = [point["late_passes"] for point in chosen]
    assert f"{100 * min(late):.0f} to {max(late):.0%} of all passes were late" in readme


def test_other_servers_at_the_pictures_costs_and_at_their_own_speed(readme):
    links = results("beside-others")["links"]

    def stated(system: str) -> str:
        speeds = [links[link]["systems"][system]["stated_tokens_per_second"] for link in ("5g", "4g", "satellite")]
        return "{:.0f}, {:.0f} and {:.0f}".format(*speeds)

    def best(link: str, ours: bool) -> float:
        systems = {name: each["tokens_per_second"] for name, each in links[link]["systems"].items()}
        llama = {name for name in systems if name.startswith("llama-server")}
        others = {"generate", "assisted generation"}
        return max(systems[name] for name in (systems.keys() - llama - others if ours else llama))

    independent = stated("eager, independent")
    without = f"({stated('eager, moa')} where its server does not draft, and with `independent` then {independent})"
    assert f"Outrider has {stated('auto, moa')} tokens/s over 5G, 4G and the satellite {without}" in readme
    assert f"assisted generation at the server come to {stated('assisted generation')} and" in readme
    assert f"with its draft model to {stated('llama-server, draft')}, computed" in readme
    times = [best(link, ours=False) / best(link, ours=True) for link in ("5g", "4g")]
    assert f"llama.cpp is {times[0]:.1f} and {times[1]:.1f} times as fast as Outrider's best over 5G and 4G" in readme


def test_answers_that_were_cut(readme):
    measured = results("torture")
    verdicts = [verdict for rule in measured["verdicts"].values() for verdict in rule.items()]
    assert {name for name, _ in verdicts} == {"identical"}
    answers = sum(count for _, count in verdicts)
    assert f"Of {answers:,} answers {answers - measured['never_cut']} had their link or server cut" in readme
    assert f"[all {answers:,}](docs/benchmarks/torture/table.md) were identical" in readme


def test_what_the_shipped_target_can_do(readme):
    card = (ROOT / "models" / "demo" / "target" / "README.md").read_text(encoding="utf-8")
    _, _, measured = card.partition("## Measured")
    right = {
        prompts: float(share)
        for prompts, share in re.findall(r"^\| ([a-z]+) \| \d+ \| ([\d.]+)% \|", measured, re.MULTILINE)
    }
    assert (
        f"{right['math'] / 10:.0f} of 10 word problems, {right['reading'] / 10:.0f} of 10 questions on a text and "
        f"{right['rewriting'] / 10:.0f} of 10 rewritings" in readme
    )


def test_the_sizes_of_the_target_and_of_the_picture_s_draft(readme):
    target = ROOT / "models" / "demo" / "target"
    layers = json.loads((target / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
    (parameters,) = re.findall(
        r"^([\d,]+) parameters", (target / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert f"The target has {layers} layers and {int(parameters.replace(',', '')) / 1e6:.0f} M parameters" in readme
    draft = results("disconnect")["drafts"]["moa, N=0"]["parameters"]
    assert f"the draft model in the picture, `moa`, {draft / 1e6:.1f} M on the laptop" in readme


def test_the_prompts_that_ship(readme):
    prompts = (ROOT / "models" / "demo" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    assert f"`models/demo/prompts.jsonl` has {len(prompts)} prompts" in readme


def test_tasks_that_the_draft_model_finishes_alone(readme):
    measured = results("disconnect")
    target = measured["target"]["pass_at_1"]["value"]
    kept = [measured["drafts"][f"moa, N={n}"]["cuts"]["50"]["pass_at_1"]["value"] / target for n in (0, 1, 3)]
    assert f"{min(kept):.0%}".rstrip("%") + f" to {max(kept):.0%} of the tasks" in readme


LABELS = {
    "moa, N=0": "moa",
    "moa, N=1": "moa --layers 1",
    "moa, N=3": "moa --layers 3",
    **{f"moa, N=0+{name}": f"moa+{name}" for name in (*STATELESS_KINDS, "independent")},
}


@pytest.mark.parametrize("draft", results("single-device")["drafts"])
def test_what_draft_models_are_worth(draft):
    measured = results("single-device")["drafts"][draft]
    label = f"`{LABELS.get(draft, draft)}`"
    lengths = [category["accept_length"]["value"] for category in measured["categories"].values()]
    cells = [label, *(f"{value:.1f}" for value in (*lengths, measured["accept_length"]["value"]))]
    row = f"| {' | '.join(cells)} | {measured['speed_up']['value']:.2f}x |"
    assert row in (ROOT / "docs" / "drafts.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("draft", ["moa, N=0", "moa, N=1", "moa, N=3", "block"])
def test_draft_models_that_were_trained_from_other_seeds(draft):
    trained = [results(f"single-device{seed}")["drafts"][draft] for seed in ("", "-seed-8", "-seed-9")]
    lengths, speeds = (
        ", ".join(form.format(each[of]["value"]) for each in trained)
        for form, of in (("{:.2f}", "accept_length"), ("{:.2f}x", "speed_up"))
    )
    row = f"| `{LABELS.get(draft, draft)}` | {lengths} | {speeds} |"
    assert row in (ROOT / "docs" / "drafts.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drafts() -> str:
    return " ".join((ROOT / "docs" / "drafts.md").read_text(encoding="utf-8").split())


def test_what_lookup_is_worth_in_addition_to_block(drafts):
    alone, both = (results("single-device")["drafts"][name]["categories"] for name in ("block", "block+lookup"))
    times = [both[kind]["speed_up"]["value"] / alone[kind]["speed_up"]["value"] for kind in alone]
    assert f"and at least {min(times):.2f} in every kind of prompts" in drafts


def test_what_auto_takes_against_the_best_draft(drafts):
    places = results("draft-choice")["places"]
    means = [{name: fmean(kinds.values()) for name, kinds in each["tokens_per_second"].items()} for each in places]
    ratios = [mean[each["taken"]] / max(mean.values()) for mean, each in zip(means, places, strict=True)]
    assert f"at least {min(ratios):.2f} of the best in the mean" in drafts
    near = sum(ratio >= 0.97 for each in places for ratio in each["ratios"].values())
    assert f"it has at least 0.97 in {near} of " in drafts


def test_the_picture_shows_every_system_on_every_link():
    script = runpy.run_path(str(ROOT / "docs" / "pictures" / "speed.py"))
    figure, measured = Figure(), results("network")["links"]
    script["draw"](measured, figure)
    (axes,) = figure.axes
    speeds = [
        measured[link]["systems"][system]["tokens_per_second"]
        for link in script["LINKS"]
        for system in script["SYSTEMS"]
    ]
    assert sorted(bar.get_height() for bar in axes.patches) == sorted(speeds)


def test_the_picture_was_drawn_from_these_results():
    pictures = ROOT / "docs" / "pictures"
    expected = runpy.run_path(str(pictures / "speed.py"))["drawn"](results("network")["links"])
    with Image.open(pictures / "speed.png") as picture:
        assert json.loads(picture.info["Description"]) == expected, "run docs/pictures/speed.py"
