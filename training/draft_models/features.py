"""The frozen target of a training run, and its features of a batch.

What may live here: loading it and reading keys, values, hidden states and logits out of transformers' own forward pass.
It may not know any draft kind, nor losses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from common.models.checkpoint import load_causal_lm, load_config, load_tokenizer, read_end_tokens
from common.models.families import key_width, required_context
from common.models.fingerprint import fingerprint
from common.models.parts import head_of, layers_of, stack_of
from common.models.shipped import shipped_family
from common.models.source import checkpoint_directory
from training.draft_models.recipe import Batch, FeatureNeeds, Features


@dataclass(frozen=True, eq=False)
class FrozenTarget:
    """A causal LM without gradients in evaluation mode, its tokenizer and its fingerprint. name: for people.
    end_tokens: end an answer, as on the server; empty where the checkpoint names none."""

    directory: Path
    name: str
    fingerprint: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    end_tokens: frozenset[int]

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def context(self) -> int:
        """The longest sequence, in tokens. Raises CheckpointError where the configuration names none."""
        return required_context(self.config, self.name)

    @property
    def key_value_size(self) -> int:
        """E_kv: key/value heads times their size, the width of one layer's keys of one token."""
        return key_width(self.config)

    @property
    def chat_form(self) -> str:
        """A digest of what decides a conversation's tokens and is not in `fingerprint`: the chat template, the special
        tokens that it writes, and the end tokens."""
        form = [self.tokenizer.chat_template, self.tokenizer.special_tokens_map, sorted(self.end_tokens)]
        return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()

    @property
    def embedding(self) -> torch.nn.Module:
        """Maps token ids [...] to vectors [..., E]."""
        embedding: torch.nn.Module = self.model.get_input_embeddings()
        return embedding

    @property
    def head(self) -> torch.nn.Module:
        """Maps hidden states after the final norm [..., E] to logits [..., V]."""
        return head_of(self.model)

    @contextmanager
    def attention_kept(self) -> Iterator[None]:
        """Restores the model's attention implementation at the end of the block."""
        before = self.config._attn_implementation
        try:
            yield
        finally:
            self.model.set_attn_implementation(before)


def load_target(path_or_id: str, device: torch.device, dtype: str) -> FrozenTarget:
    """Loads a target. Raises `CheckpointError` where the checkpoint, the device or the dtype cannot be used."""
    family = shipped_family(path_or_id)
    directory = checkpoint_directory(family.target if family else path_or_id, with_weights=True)
    # The hub's cache names its folders by commits.
    is_id = family is not None or not Path(path_or_id).expanduser().is_dir()
    tokenizer = load_tokenizer(directory)
    return FrozenTarget(
        directory=directory,
        name=path_or_id if is_id else directory.resolve().name,
        fingerprint=fingerprint(directory),
        model=load_causal_lm(directory, device, dtype),
        tokenizer=tokenizer,
        end_tokens=read_end_tokens(directory, load_config(directory), tokenizer),
    )


@torch.no_grad()
def features(target: FrozenTarget, batch: Batch, needs: FeatureNeeds) -> Features:
    """The features that `needs` names, by one forward pass over the batch, which is on the target's device."""
    if needs == FeatureNeeds():
        return Features()
    # Without the configuration, because with it a layer with a sliding window would drop what left the window.
    cache = DynamicCache() if needs.key_values else None
    body: Any = stack_of(target.model)
    with _leaving_last_layer(target) as left:
        output = body(
            input_ids=batch.ids,
            past_key_values=cache,
            use_cache=cache is not None,
            output_hidden_states=any(n > 0 for n in needs.hidden),
        )
    last = output.last_hidden_state
    return Features(
        key_values=stack_key_values(cache) if cache is not None else None,
        hidden={n: output.hidden_states[-1 - n] if n else last for n in needs.hidden},
        unnormed=left[0] if needs.unnormed else None,
        logits=target.head(last[batch.learn]) if needs.logits else None,
    )


@contextmanager
def _leaving_last_layer(target: FrozenTarget) -> Iterator[list[torch.Tensor]]:
    """What leaves the last layer in a forward within the block: transformers returns it behind the final norm alone."""
    left: list[torch.Tensor] = []

    def keep(_layer: torch.nn.Module, _entered: Any, output: Any) -> None:
        # Some layers give tuples.
        left.append(output if isinstance(output, torch.Tensor) else output[0])

    hook = layers_of(target.model)[-1].register_forward_hook(keep)
    try:
        yield left
    finally:
        hook.remove()


def stack_key_values(cache: DynamicCache) -> torch.Tensor:
    """[L, R, T, 2 * E_kv]: for every layer the keys, then the values, with their heads concatenated."""
    layers: Any = cache.layers
    return torch.stack([torch.cat([flat(layer.keys), flat(layer.values)], dim=-1) for layer in layers])


def flat(heads: torch.Tensor) -> torch.Tensor:
    """Reshapes [R, heads, T, size] to [R, T, heads * size]."""
    return heads.transpose(1, 2).flatten(2)
