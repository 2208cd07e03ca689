"""A folder of tiny random models with drafts of several kinds and a prompt of every category."""

import json
from pathlib import Path

import torch

from common.draft_models.eagle import EagleConfig, EagleDraft, save_eagle
from common.draft_models.layers import LayerShape
from common.draft_models.moa import MoaConfig, MoaDraft, make_lsa, save_moa
from common.models.fingerprint import fingerprint
from netem.experiments.one_device.prompts import CATEGORIES
from tests.families import make_checkpoint

HIDDEN, LAYERS, KEY_WIDTH = 48, 3, 16


def make_folder(folder: Path, depths: tuple[int, ...] = (0, 1)) -> Path:
    """With `target`, `draft` (the target itself, so that it is always right), `eagle` and `moa`."""
    make_checkpoint(folder / "target", "llama", seed=1, dtype=torch.float32)
    make_checkpoint(folder / "draft", "llama", seed=1, dtype=torch.float32)
    identity = fingerprint(folder / "target")
    torch.manual_seed(0)
    shape = LayerShape(HIDDEN, 4, 2, 12, 64)
    save_eagle(folder / "eagle", identity, EagleDraft(EagleConfig(shape)))
    state = 2 * KEY_WIDTH
    config = MoaConfig(HIDDEN, LAYERS, state, depths, LayerShape(state, 4, 2, 8, 32), shape, shape)
    save_moa(folder / "moa", identity, config, {depth: MoaDraft(config, depth) for depth in depths}, make_lsa(config))
    write_prompts(folder / "prompts.jsonl", each=2)
    return folder


def write_prompts(file: Path, each: int) -> None:
    lines = [
        {
            "category": category,
            "split": "held-out instance",
            "prompt": f"{category} number {number}",
            "result": ["7"] if category == "math" else [],
        }
        for category in CATEGORIES
        for number in range(each)
    ]
    lines.append({"category": "code", "split": "held-out family", "prompt": "another", "tests": ["assert True"]})
    file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
