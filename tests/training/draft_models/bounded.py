"""What the losses of a recipe are, and what they keep for the backward pass, beside those of all places at once."""

from pathlib import Path

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import kl_div, log_softmax
from transformers import LlamaConfig

from tests.training.draft_models.rehearsal import lose, target_of
from training.draft_models.features import FrozenTarget, features
from training.draft_models.recipe import Batch, Moment, Recipe


def plain_divergences(head, read, logits, learned):
    given, wanted = log_softmax(head(read).float(), -1), log_softmax(logits.float(), -1)[learned]
    return kl_div(given, wanted.expand_as(given), reduction="none", log_target=True).sum(-1)


def losses_and_gradients(recipe: Recipe, target: FrozenTarget, batch: Batch) -> dict[str, torch.Tensor]:
    recipe.module.zero_grad()
    parts = lose(recipe, target, batch)
    parts.total.backward()
    gradients = {name: each.grad for name, each in recipe.module.named_parameters() if each.grad is not None}
    return {"total": parts.total.detach(), **parts.metrics, **gradients}


def target_of_many_tokens(folder: Path) -> FrozenTarget:
    shape = LlamaConfig(
        vocab_size=8192,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=None,
    )
    return target_of(folder, shape)


def logits_kept(recipe: Recipe, target: FrozenTarget) -> float:
    """The bytes that the losses of two rows keep for the backward pass, as multiples of the target's logits, which
    are among them."""
    ids = torch.randint(5, 290, (2, 200), generator=torch.Generator().manual_seed(0))
    learn = torch.zeros(ids.shape, dtype=torch.bool)
    learn[:, 3:-1] = True
    batch = Batch(ids, learn, torch.full((2,), ids.shape[1]))
    known = features(target, batch, recipe.needs)
    assert known.logits is not None
    frozen = {each.untyped_storage().data_ptr() for each in target.model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in frozen:
            kept[storage.data_ptr()] = storage
        return tensor

    torch.manual_seed(0)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        recipe.loss(batch, known, Moment(0, 1))
    return sum(storage.nbytes() for storage in kept.values()) / known.logits.nbytes
