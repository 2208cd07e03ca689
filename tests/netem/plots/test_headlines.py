"""Headlines say what the results say, and change with them."""

import ast
from copy import deepcopy
from pathlib import Path

import pytest

import netem.plots
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.torture.outcome import VERDICTS
from netem.plots.phrases import counted, joined, of_all, span, times
from netem.plots.picture import draw_picture, svg_of
from tests.netem.plots.sound import assert_sound

COSTS = {"pass_ms": 30.0, "draft_level_ms": 5.0}


def links(**speeds: dict[str, float]) -> dict:
    return {
        "stated_costs": COSTS,
        "links": {
            link: {"systems": {name: {"tokens_per_second": speed} for name, speed in of.items()}}
            for link, of in speeds.items()
        },
    }


def message(experiment: str, results: dict) -> str:
    return svg_of(EXPERIMENTS[experiment].draw(), results)[0].message


def test_networks_headline_divides_auto_by_what_is_in_the_results() -> None:
    fast = links(
        near={"cloud decoding": 30.0, "server-side speculation": 80.0, "lock-step moa": 100.0, "auto": 150.0},
        far={"cloud decoding": 30.0, "server-side speculation": 40.0, "lock-step moa": 10.0, "auto": 60.0},
    )
    said = message("network", fast)
    assert "2.0 to 5.0 times as fast as cloud decoding" in said
    assert "1.50 times as fast as the best baseline" in said
    slow = deepcopy(fast)
    slow["links"]["far"]["systems"]["auto"]["tokens_per_second"] = 15.0
    assert "0.5 to 5.0 times" in message("network", slow)


def test_the_fastest_tree_is_in_the_picture() -> None:
    trees = [
        {"breadth": breadth, "depth": depth, "nodes": breadth * depth, "speed_up": {"value": speed_up}}
        for breadth, depth, speed_up in ((1, 2, 1.5), (4, 2, 2.25), (16, 2, 2.0))
    ]
    headline, picture = svg_of(EXPERIMENTS["trees"].draw(), {"drafts": {"moa": trees}})
    assert "with breadth 4 and depth 2: 2.25 times" in headline.message
    assert "breadth 4" in str(picture)
    assert "breadth 16" not in str(picture)


def test_the_fastest_beside_others_is_named_for_both_kinds_of_cost() -> None:
    def speeds(own: float, stated: float) -> dict[str, float]:
        return {"tokens_per_second": own, "stated_tokens_per_second": stated}

    of = {"llama-server": speeds(400.0, 30.0), "eager, moa": speeds(90.0, 110.0)}
    results = {"stated_costs": COSTS, "links": {"4g": {"systems": of}}}
    assert message("beside-others", results) == ("Fastest at its own speed: llama-server; at stated costs: eager, moa")
    of["eager, moa"] = speeds(500.0, 20.0)
    assert "at stated costs: llama-server" in message("beside-others", results)


def test_a_verdict_that_is_not_all_of_them_is_counted() -> None:
    tallies = {"moa, eager": {"identical": 3}, "lookup, eager": {"identical": 2, "near-tie": 1}}
    assert message("exactness", {"moa, eager": {"identical": 3}}).startswith("All 3 answers")
    assert message("exactness", tallies).startswith("5 of 6 answers")


def test_every_verdict_of_a_flapping_link_is_drawn() -> None:
    answers = dict.fromkeys(VERDICTS, 1)
    group = {"answers": len(VERDICTS), "verdicts": answers, "resumed": 0, "rebuilt": 0}
    figure = draw_picture(EXPERIMENTS["flapping"].draw(), {"groups": {"break": group}, "all": group})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(VERDICTS)


def test_the_clocks_headline_leaves_out_runs_whose_costs_were_not_kept() -> None:
    point = {"link": "4g", "clients": 1, "costs": 1, "system": "auto", "virtual": 11.0, "real": [10.0]}
    points = [{**point, "ratio": 1.1, "counts": True}, {**point, "ratio": 1.9, "counts": False}]
    said = message("clock", {"stated_costs": COSTS, "points": points})
    assert "1.10 times" in said
    assert "1 of 2 runs" in said
    assert "1.9" not in said


def test_the_fastest_draft_model_is_found_and_not_named_beforehand() -> None:
    def score(length: float, speed: float) -> dict:
        def estimate(value: float) -> dict[str, float]:
            return {"value": value, "low": value, "high": value}

        return {"accept_length": estimate(length), "speed_up": estimate(speed), "categories": {}}

    one_best = {"drafts": {"eagle": score(5.0, 3.0), "moa, N=0": score(4.0, 2.0)}}
    assert message("single-device", one_best).startswith("'eagle' drafts best")
    two = {"drafts": {"eagle": score(3.0, 3.0), "moa, N=0": score(4.0, 2.0)}}
    assert "'moa, N=0' has the longest accept length (4.0), 'eagle' the largest speed-up (3.00)" in message(
        "single-device", two
    )


def test_constrained_answers_are_counted_and_their_speeds_divided() -> None:
    speeds = {"tokens_per_second": 90.0, "unconstrained_tokens_per_second": 60.0}
    timed = {"answers": 4, "valid": 3, "invalid": 0, "same": 4, "asked": speeds, "not_asked": speeds}
    other = {"answers": 2, "valid": 1, "invalid": 1, "same": 1}
    assert message("conformance", {"systems": {"auto moa, 5g": timed}}) == (
        "All 3 finished answers are valid, all 4 the same whatever drafts; 1.50 times as fast where JSON is asked for"
    )
    said = message("conformance", {"systems": {"auto moa, 5g": timed, "eager moa, 4g": other}})
    assert said.startswith("4 of 5 finished answers are valid, 5 of 6 the same")


def test_an_agent_that_did_not_edit_is_not_named() -> None:
    seconds = {"pip wheel": 10.0, "aider_edit: a file": 5.0}
    results = {"seconds": seconds, "total_seconds": 15.0, "edited": {"aider_edit": "x", "opencode_edit": ""}}
    assert message("from-wheel", results) == "From the wheel to a file that aider edited: 15 seconds"
    assert "no agent edited" in message("from-wheel", results | {"edited": {}})


def test_a_run_that_is_not_valid_says_so_above_its_plot() -> None:
    results = {"moa, eager": {"identical": 3}}
    figure = draw_picture(EXPERIMENTS["exactness"].draw(), results, ["it rained", "it snowed"])
    assert_sound(figure)
    assert any("not valid, for 2 reasons" in text.get_text() for text in figure.texts)
    figure = draw_picture(EXPERIMENTS["exactness"].draw(), results)
    assert not any("not valid" in text.get_text() for text in figure.texts)


MODULES = sorted(Path(netem.plots.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_no_message_holds_a_number_that_somebody_wrote(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for said in map(words, messages(function)):
            assert not any(character.isdecimal() for character in said), (function.name, said)


def messages(function: ast.FunctionDef) -> list[ast.expr]:
    """What the first argument of Headline is, or what it is a name of."""
    nodes = list(ast.walk(function))
    given = [node.args[0] for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "Headline"]
    names = {node.id for node in given if isinstance(node, ast.Name)}
    return given + [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign) and names & {ast.unparse(to) for to in node.targets}
    ]


def words(message_made: ast.expr) -> str:
    """What is written between the values, without their formats."""
    texts = [node for node in ast.walk(message_made) if isinstance(node, ast.JoinedStr)]
    formats = {id(node.format_spec) for node in ast.walk(message_made) if isinstance(node, ast.FormattedValue)}
    parts = [part for text in texts if id(text) not in formats for part in text.values]
    return " ".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def test_numbers_in_words() -> None:
    assert span([2.04, 1.96]) == "2.0"
    assert span([3.0, 1.0, 2.0]) == "1.0 to 3.0"
    assert span([]) == "no"
    assert times([1.5], "{:.2f}") == "1.50 times"
    assert (of_all(3, 3), of_all(2, 3000)) == ("all 3", "2 of 3,000")
    assert (joined(["a"]), joined(["a", "b", "c"])) == ("a", "a, b and c")
    assert (counted(1, "server"), counted(1000, "server")) == ("1 server", "1,000 servers")
