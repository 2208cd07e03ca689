"""Tiny random models with prompts that have tests, and a bench of them."""

import json

import pytest

from netem.experiments.experiment import Request
from netem.experiments.one_device.bench import open_bench
from netem.experiments.one_device.compared_drafts import find_drafts, find_model_paths
from tests.netem.experiments.one_device.folder import make_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """As for drafts; its `draft` is the target itself, so that what it writes alone is the target's own."""
    models = make_folder(tmp_path_factory.mktemp("offline"))
    prompts = [
        {"category": "code", "split": split, "prompt": f"write {index}", "tests": ["assert candidate(1) == 1"]}
        for index, split in enumerate(["held-out instance"] * 3 + ["held-out family"])
    ]
    (models / "prompts.jsonl").write_text("\n".join(map(json.dumps, prompts)), encoding="utf-8")
    return models


@pytest.fixture(scope="session")
def request_for(folder):
    return lambda *drafts, data=None: Request(0, quick=True, data=data, models=folder, drafts=drafts)


@pytest.fixture(scope="session")
def drafts(request_for):
    """By name."""
    return {each.name: each for each in find_drafts(request_for())}


@pytest.fixture(scope="session")
def bench(request_for, drafts):
    with open_bench(find_model_paths(request_for()), list(drafts.values())) as opened:
        yield opened
