"""The whole demo recipe: tokenizer, target, draft, evaluation, cards; each stage is kept and not repeated.

What may live here: the order of the stages, their settings and the files they leave in the work folder. It may not
print, parse arguments or know how a stage works inside.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from common.protocol.errors import MisuseError
from training.demo.architecture import CONTEXT, DRAFT, TARGET, Shape, new_model
from training.demo.batching import ROW_LENGTHS, Feed
from training.demo.card import Trained, draft_card, target_card
from training.demo.corpus import Corpus, sample_texts
from training.demo.evaluate import Scores, evaluate
from training.demo.losses import Distillation, answer_loss
from training.demo.prompts import write_prompts
from training.demo.public_data import load_public
from training.demo.shipping import load_model, save_model
from training.demo.tokenizer import load_tokenizer, train_tokenizer
from training.demo.training_loop import LoopSettings, Loss, Progress, run

TARGET_SHARE = 0.85
TOKENIZER_CONVERSATIONS = 20_000


class RecipeError(MisuseError):
    """The output folder does not fit the request; the message says what to do."""


@dataclass(frozen=True)
class DemoSettings:
    """What a run depends on. `minutes` of active time cover the training of target and draft together."""

    seed: int
    minutes: float
    data: bool
    judged: int = 400

    def target_loop(self) -> LoopSettings:
        return LoopSettings(seconds=60 * self.minutes * TARGET_SHARE, peak_rate=2e-3)

    def draft_loop(self) -> LoopSettings:
        return LoopSettings(seconds=60 * self.minutes * (1 - TARGET_SHARE), peak_rate=4e-3)


@dataclass(frozen=True)
class Watcher:
    """How a caller follows the recipe: stage names as they start, and progress within a budget of seconds."""

    stage: Callable[[str], None]
    progress: Callable[[Progress, float], None]


@dataclass(frozen=True)
class Work:
    """The folder in which an unfinished run keeps its stages."""

    folder: Path

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer"

    @property
    def settings(self) -> Path:
        return self.folder / "settings.json"

    def checkpoint(self, role: str) -> Path:
        return self.folder / f"{role}.pt"


def open_work(out: Path, settings: DemoSettings, resume: bool) -> Work:
    """The work folder under `out`. Raises `RecipeError` where a run would be overwritten or resumed differently."""
    work = Work(out / "work")
    if work.folder.exists():
        if not resume:
            raise RecipeError(f"{work.folder} holds an earlier run: add --resume, or choose another --out")
        if work.settings.exists() and json.loads(work.settings.read_text(encoding="utf-8")) != asdict(settings):
            raise RecipeError(f"{work.folder} was started with other settings: resume it with the same options")
    work.folder.mkdir(parents=True, exist_ok=True)
    work.settings.write_text(json.dumps(asdict(settings)), encoding="utf-8")
    return work


def train_demo(out: Path, settings: DemoSettings, data: Path | None, resume: bool, watcher: Watcher) -> Scores:
    """Leave `target/`, `draft/` and `prompts.jsonl` under `out`, and return what was measured on them."""
    public = load_public(data) if data is not None else {}
    work = open_work(out, settings, resume)
    corpus = Corpus(settings.seed, public)
    watcher.stage("tokenizer")
    tokenizer = the_tokenizer(work, corpus)
    watcher.stage("target")
    feed = Feed(corpus, tokenizer)
    target_trained = train_model("target", TARGET, feed, settings.target_loop(), answer_loss, work, out, watcher)
    watcher.stage("draft")
    target, _ = load_model(out / "target")
    draft_feed = Feed(Corpus(settings.seed + 1, public), tokenizer)
    teach = Distillation(target)
    draft_trained = train_model("draft", DRAFT, draft_feed, settings.draft_loop(), teach, work, out, watcher)
    draft, _ = load_model(out / "draft")
    scores = evaluate(target, tokenizer, draft, settings.judged, watcher.stage)
    write_prompts(out / "prompts.jsonl")
    target_text = target_card(target_trained, scores, corpus.seed, list(public))
    draft_text = draft_card(draft_trained, scores, draft_feed.corpus.seed, list(public))
    (out / "target" / "README.md").write_text(target_text, encoding="utf-8")
    (out / "draft" / "README.md").write_text(draft_text, encoding="utf-8")
    return scores


def the_tokenizer(work: Work, corpus: Corpus) -> PreTrainedTokenizerFast:
    if not work.tokenizer.exists():
        texts = sample_texts(corpus, TOKENIZER_CONVERSATIONS)
        train_tokenizer(texts, CONTEXT).save_pretrained(work.tokenizer)
    return load_tokenizer(work.tokenizer)


def train_model(
    role: str,
    shape: Shape,
    feed: Feed,
    loop: LoopSettings,
    loss: Loss,
    work: Work,
    out: Path,
    watcher: Watcher,
) -> Trained:
    """Train or finish one model and save it under `out/role`."""
    model = new_model(shape, feed.tokenizer, feed.corpus.seed)
    compile_layers(model)
    progress = run(
        model, feed.batch, loss, loop, work.checkpoint(role), lambda now: watcher.progress(now, loop.seconds)
    )
    saved = new_model(shape, feed.tokenizer, feed.corpus.seed)
    saved.load_state_dict(model.state_dict())
    save_model(saved, feed.tokenizer, out / role)
    return Trained(sum(parameter.numel() for parameter in saved.parameters()), loop, progress)


def compile_layers(model: LlamaForCausalLM) -> None:
    """Compile each layer for every row length, where a C++ compiler is at hand: about half as fast again."""
    if shutil.which("g++"):
        torch._dynamo.config.recompile_limit = 2 * len(ROW_LENGTHS)
        for layer in model.model.layers:
            layer.compile(dynamic=False)
