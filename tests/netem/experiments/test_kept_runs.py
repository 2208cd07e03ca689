from pathlib import Path

from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import APPS, DATA, LLAMA_SERVER, Request
from netem.experiments.kept_runs import ABLATION, RUNS, SEEDS


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
    assert by_folder["sizes-weights"].arguments({})[-2:] == ["--target", "Llama-3.1-8B"]
    built = {**outside, LLAMA_SERVER: [Path("llama")]}
    assert by_folder["beside-others"].arguments(built) == ["beside-others", "--llama-server", "llama"]
    assert by_folder["beside-others"].request(built).llama_server == Path("llama")
    assert by_folder["network"].request(outside) == Request(0, quick=False)


def test_every_run_reads_the_options_that_it_is_given():
    outside = {option: [Path("given")] for option in (DATA, APPS, ABLATION, SEEDS, LLAMA_SERVER)}
    for run in RUNS:
        EXPERIMENTS[run.experiment].check_options(run.request(outside))
