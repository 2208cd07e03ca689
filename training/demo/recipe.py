"""The whole demo recipe: tokenizer, target, evaluation, card; each stage is kept and not repeated.

What may live here: the order of the stages, their settings and the files they leave in the work folder. It may not
print, parse arguments or know how a stage works inside.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from common.atomic import atomic_file, atomic_folder
from common.protocol.errors import MisuseError
from training.demo.architecture import CONTEXT, SHAPES, Shape, new_model
from training.demo.batching import ROW_LENGTHS, ConversationBatch, CorpusBatches
from training.demo.card import Trained, recipe_of, target_card
from training.demo.corpus import Corpus, sample_texts
from training.demo.evaluate import Scores, evaluate
from training.demo.prompts import write_prompts
from training.demo.public_data import SOURCES, load_public
from training.demo.shipping import load_model, save_model
from training.demo.tokenizer import load_tokenizer, train_tokenizer
from training.demo.training_loop import TargetLoopSettings, TargetProgress, run
from training.writing import BEGUN_AGAIN, CONTINUED, written

TOKENIZER_CONVERSATIONS = 20_000


class RecipeError(MisuseError):
    """The output folder does not fit the request; the message says what to do."""


@dataclass(frozen=True)
class DemoSettings:
    """What a run depends on. `tokens` are those to train on; `warm` says that it continues from given weights. `files`:
    the sha256 of each file that it reads, by name."""

    seed: int
    tokens: int
    data: bool
    warm: bool = False
    judged: int = 200
    shape: str = "shipped"
    seconds: float = math.inf
    files: Mapping[str, str] = field(default_factory=dict)

    def loop(self) -> TargetLoopSettings:
        """A fresh start takes the higher rates; weights that are trained already would lose more than they gain."""
        fresh = TargetLoopSettings(self.tokens, seconds=self.seconds)
        return (
            replace(fresh, matrix_rate=fresh.matrix_rate / 2, vector_rate=fresh.vector_rate / 2) if self.warm else fresh
        )

    def fixed(self) -> dict[str, object]:
        """What a resumed run may not change. Its length may: the plateau of the learning rate does not depend on it."""
        return {name: value for name, value in asdict(self).items() if name not in ("tokens", "seconds")}


@dataclass(frozen=True)
class Watcher:
    """How a caller follows the recipe: stage names as they start, and progress towards a number of tokens."""

    stage: Callable[[str], None]
    progress: Callable[[TargetProgress, int], None]


@dataclass(frozen=True)
class WorkPaths:
    """The folder in which an unfinished run keeps its stages."""

    folder: Path

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer"

    @property
    def settings(self) -> Path:
        return self.folder / "settings.json"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "target.pt"


def open_work(out: Path, settings: DemoSettings, resume: bool) -> WorkPaths:
    """The work folder under `out`. Raises `RecipeError` where a run would be overwritten, resumed differently or
    resumed without having begun."""
    work = WorkPaths(out / "work")
    if resume:
        check_begun(work, settings)
    elif work.folder.exists():
        advice = "add --resume" if work.settings.exists() else "remove it, as it has nothing for --resume"
        raise RecipeError(f"{work.folder} holds an earlier run: {advice}, or choose another --out")
    elif found := next((path for path in (out / "target", out / "prompts.jsonl") if path.exists()), None):
        raise RecipeError(f"{found} is of an earlier run, which may have taken hours: move it, or choose another --out")
    with written(work.folder, BEGUN_AGAIN):
        work.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(work.settings) as file:
            file.write(json.dumps(settings.fixed()).encode())
    return work


def check_begun(work: WorkPaths, settings: DemoSettings) -> None:
    """Raises `RecipeError` where there is no run with these settings."""
    if not work.settings.exists():
        advice = "remove it, and" if work.folder.exists() else "name the right --out, or"
        raise RecipeError(f"there is no run in {work.folder} to continue: {advice} leave out --resume")
    try:
        found = json.loads(work.settings.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecipeError(f"{work.settings} is broken: remove {work.folder} and start again") from error
    if not isinstance(found, dict) or found.keys() != settings.fixed().keys():
        raise RecipeError(
            f"{work.folder} holds other settings, those of another version of Outrider: choose another --out, or "
            "remove it and start again"
        )
    if found != settings.fixed():
        raise RecipeError(f"{work.folder} was started with other settings: resume it with the same options")


def train_demo(
    out: Path,
    settings: DemoSettings,
    data: Path | None,
    resume: bool,
    watcher: Watcher,
    warm_start: Path | None = None,
    device: str = "cpu",
) -> Scores:
    """Leave `target/` and `prompts.jsonl` under `out`, and return what was measured on the target.

    With `warm_start`, a target folder of an earlier run, its tokenizer and weights are where this run begins.
    """
    public = load_public(data) if data is not None else {}
    work = open_work(out, replace(settings, files=checksums(data, warm_start)), resume)
    corpus = Corpus(settings.seed, public)
    watcher.stage("tokenizer")
    tokenizer = load_tokenizer(warm_start) if warm_start is not None else the_tokenizer(work, corpus)
    watcher.stage("target")
    shape = SHAPES[settings.shape]
    feed = CorpusBatches(corpus, tokenizer, shape.batch_tokens)
    trained = train_target(shape, feed, settings.loop(), work, out, watcher, warm_start, device)
    target, _ = load_model(out / "target")
    torch.nn.Module.to(target, device)
    scores = evaluate(target, tokenizer, settings.judged, watcher.stage)
    card = target_card(trained, scores, corpus.seed, list(public))
    with written(out, CONTINUED):
        write_prompts(out / "prompts.jsonl")
        (out / "target" / "README.md").write_text(card, encoding="utf-8")
    return scores


def checksums(data: Path | None, warm_start: Path | None) -> dict[str, str]:
    """The sha256, by name, of each file of the public text, and of the weights to begin from with their tokenizer."""
    files = [(source.file, data / source.file) for source in SOURCES] if data is not None else []
    if warm_start is not None:
        files += [(name, warm_start / name) for name in ("model.safetensors", "tokenizer.json")]
    found = {}
    for name, path in files:
        if path.is_file():
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def the_tokenizer(work: WorkPaths, corpus: Corpus) -> PreTrainedTokenizerFast:
    if not work.tokenizer.exists():
        texts = sample_texts(corpus, TOKENIZER_CONVERSATIONS)
        with written(work.tokenizer, CONTINUED), atomic_folder(work.tokenizer) as folder:
            train_tokenizer(texts, CONTEXT).save_pretrained(folder)
    return load_tokenizer(work.tokenizer)


def train_target(
    shape: Shape,
    feed: CorpusBatches,
    loop: TargetLoopSettings,
    work: WorkPaths,
    out: Path,
    watcher: Watcher,
    warm_start: Path | None = None,
    device: str = "cpu",
) -> Trained:
    """Train or finish the target and save it under `out/target`."""
    model = new_model(shape, feed.tokenizer, feed.corpus.seed)
    if warm_start is not None:
        model.load_state_dict(load_model(warm_start)[0].state_dict())
    torch.nn.Module.to(model, device)
    if device == "cpu" and loop.seconds == math.inf:  # compiling takes longer than it saves in a run of minutes
        compile_layers(model)
    progress = run(
        model, feed.batch, answer_loss, loop, work.checkpoint, lambda now: watcher.progress(now, loop.tokens)
    )
    saved = new_model(shape, feed.tokenizer, feed.corpus.seed)
    saved.load_state_dict({name: weight.cpu() for name, weight in model.state_dict().items()})
    with written(out / "target", CONTINUED):
        save_model(saved, feed.tokenizer, out / "target")
    earlier = recipe_of(read_card(warm_start)) if warm_start is not None else ""
    size = sum(parameter.numel() for parameter in saved.parameters())
    return Trained(size, loop, progress, earlier, device, shape.batch_tokens)


def read_card(folder: Path) -> str:
    """The card of a model folder; empty where it has none."""
    card = folder / "README.md"
    return card.read_text(encoding="utf-8") if card.is_file() else ""


def compile_layers(model: LlamaForCausalLM) -> None:
    """Compile each layer for every row length, where a C++ compiler is at hand: about half as fast again."""
    if shutil.which("g++"):
        torch._dynamo.config.recompile_limit = 2 * len(ROW_LENGTHS)
        for layer in model.model.layers:
            layer.compile(dynamic=False)


def learned_logits(model: LlamaForCausalLM, batch: ConversationBatch) -> torch.Tensor:
    """Float32 logits [learned positions, vocabulary]; other positions never reach the output layer."""
    body: Any = model.model
    hidden: torch.Tensor = body(input_ids=batch.ids, use_cache=False).last_hidden_state
    logits: torch.Tensor = model.lm_head(hidden[batch.learn])
    return logits.float()


def answer_loss(model: LlamaForCausalLM, batch: ConversationBatch) -> torch.Tensor:
    """Mean cross-entropy of the answer tokens, in nats."""
    return functional.cross_entropy(learned_logits(model, batch), batch.targets)
