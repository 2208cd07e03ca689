"""A small random target and batches for it: what tests of recipes train on."""

from pathlib import Path
from weakref import WeakKeyDictionary

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig

from tests.families import make_checkpoint, make_tokenizer
from training.draft_models.features import FrozenTarget, features, load_target
from training.draft_models.recipe import Batch, Evaluation, Features, LossParts, Moment, Recipe, RoundsSize

PROMPTS = [[11, 45, 7, 201], [99, 45, 7, 3, 8, 120], [17, 33, 5]]

_texts: WeakKeyDictionary[torch.nn.Module, dict[tuple[int, int, int], torch.Tensor]] = WeakKeyDictionary()
"""What each target answers, by the arguments of `random_batch`: many tests ask the same of one target."""


def random_target(folder: Path, family: str = "llama", dtype: str = "float32") -> FrozenTarget:
    return load_target(str(make_checkpoint(folder / "target", family)), torch.device("cpu"), dtype)


def target_of(folder: Path, config: PreTrainedConfig) -> FrozenTarget:
    """A random target of any family that transformers knows."""
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return load_target(str(folder), torch.device("cpu"), "float32")


def random_batch(target: FrozenTarget, rows: int = 3, columns: int = 24, seed: int = 0) -> Batch:
    """The target's greedy text behind four random tokens, learned from the fifth on, the second row padded."""
    of_target = _texts.setdefault(target.model, {})
    if (rows, columns, seed) not in of_target:
        generator = torch.Generator().manual_seed(seed)
        start = torch.randint(2, 258, (rows, 4), generator=generator)
        of_target[rows, columns, seed] = target.model.generate(
            start, max_new_tokens=columns - 4, do_sample=False, eos_token_id=None
        )
    ids = of_target[rows, columns, seed].clone()
    learn = torch.zeros(rows, columns, dtype=torch.bool)
    learn[:, 3:-1] = True
    lengths = torch.full((rows,), columns)
    lengths[1] = columns - 6
    ids[1, -6:] = 0
    learn[1, -7:] = False
    return Batch(ids, learn, lengths)


def learning_only(batch: Batch, first: int, count: int = 1) -> Batch:
    """The same text, of which so many positions of the first row are learned."""
    learn = torch.zeros_like(batch.learn)
    learn[0, first : first + count] = True
    return Batch(batch.ids, learn, batch.lengths)


def lose(recipe: Recipe, target: FrozenTarget, batch: Batch, moment: Moment | None = None, seed: int = 0) -> LossParts:
    return _lose(recipe, batch, features(target, batch, recipe.needs), moment or Moment(0, 1), seed)


def _lose(recipe: Recipe, batch: Batch, given: Features, moment: Moment, seed: int) -> LossParts:
    # `torch.manual_seed` notes for each device that is not there who called it, which takes as long as a layer.
    torch.default_generator.manual_seed(seed)
    return recipe.loss(batch, given, moment)


def measure(recipe: Recipe, target: FrozenTarget, prompts: list[list[int]], new_tokens: int) -> Evaluation:
    """As the loop does it."""
    with target.attention_kept(), torch.no_grad():
        return recipe.evaluate(prompts, RoundsSize(new_tokens))


def train(recipe: Recipe, target: FrozenTarget, batch: Batch, steps: int, rate: float) -> list[float]:
    """The losses of `steps` steps on one batch."""
    optimizer = torch.optim.Adam(recipe.module.parameters(), lr=rate)
    recipe.module.train()
    given, losses = features(target, batch, recipe.needs), []
    for step in range(steps):
        optimizer.zero_grad()
        parts = _lose(recipe, batch, given, Moment(step, steps), seed=step)
        parts.total.backward()
        optimizer.step()
        losses.append(float(parts.total.detach()))
    recipe.module.eval()
    return losses
