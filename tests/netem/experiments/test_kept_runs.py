import shlex
from pathlib import Path

import pytest

from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import APPS, DATA, LLAMA_SERVER, Request
from netem.experiments.kept_runs import ABLATION, RUNS, SEEDS
from netem.experiments.run_command import read_command


def test_every_experiment_is_kept_and_none_twice_in_a_folder():
    assert {run.experiment for run in RUNS} == set(EXPERIMENTS)
    assert len({run.folder for run in RUNS}) == len(RUNS)


def test_arguments_name_what_a_run_needs_and_nothing_else():
    outside = {DATA: [Path("data")], APPS: [Path("a"), Path("b")], ABLATION: [Path("parts")]}
    by_folder = {run.folder: run for run in RUNS}
    assert by_folder["law"].arguments(outside) == ["law"]
    assert by_folder["coupled"].arguments(outside) == ["coupled", "--data", "data"]
    assert by_folder["apps"].arguments(outside) == ["apps", "--apps", "a", "--apps", "b"]
    assert by_folder["ablation"].arguments(outside)[:5] == ["ablation", "--models", "parts", "--draft", "eagle"]
    families = {SEEDS: [Path("families")]}
    assert by_folder["network-seed-8"].arguments(families) == ["network", "--models", "families/8"]
    built = {**outside, LLAMA_SERVER: [Path("llama")]}
    assert by_folder["beside-others"].arguments(built) == ["beside-others", "--llama-server", "llama"]
    assert by_folder["beside-others"].request(built).llama_server == Path("llama")
    assert by_folder["network"].request(outside) == Request(0, quick=False)


@pytest.mark.parametrize("outside", [{}, {DATA: [Path("here")], SEEDS: [Path("families")], APPS: [Path("a")]}])
def test_a_run_knows_its_own_command_by_the_options_and_not_by_paths(outside):
    by_folder = {run.folder: run for run in RUNS}

    def knows(folder: str, options: str) -> bool:
        return by_folder[folder].is_run_of(read_command(f"outrider-lab run {options} --out there/{folder}"), outside)

    assert knows("law", "law")
    assert knows("law", "law --seed 0 --device cpu")
    assert not knows("law", "law --quick")
    assert not knows("law", "network")
    assert not knows("law", "law --models ../mine")
    assert knows("coupled", "coupled --data ../elsewhere")
    assert not knows("coupled", "coupled")
    assert knows("network-seed-8", "network --models ../families/8")
    assert knows("apps", "apps --apps x --apps y")
    assert not knows("engine", "engine --target Llama-3.1-8B --device cuda")
    assert knows("sizes", "sizes")
    assert not knows("sizes", "sizes --target Qwen3-0.6B --draft moa-n0")


def test_every_run_knows_what_it_runs():
    outside = {option: [Path("given")] for option in (DATA, APPS, ABLATION, SEEDS, LLAMA_SERVER)}
    for run in RUNS:
        command = read_command(shlex.join(["outrider-lab", "run", *run.arguments(outside), "--out", "a folder"]))
        assert run.is_run_of(command, outside)
        assert run.is_run_of(command, {})
        same = [each.folder for each in RUNS if each.is_run_of(command, outside)]
        assert len(same) == (1 if not run.family else 2), "families of other seeds differ by their models alone"


def test_every_run_reads_the_options_that_it_is_given():
    outside = {option: [Path("given")] for option in (DATA, APPS, ABLATION, SEEDS, LLAMA_SERVER)}
    for run in RUNS:
        EXPERIMENTS[run.experiment].check_options(run.request(outside))
