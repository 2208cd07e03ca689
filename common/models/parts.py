"""The parts of a causal LM, whatever its family calls them: its stack, the stack's layers, and its head, which turns
last hidden states into logits as the model's own forward does.

It may not know how any family scales or caps its logits: that part of its forward is run as it is.
"""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from common.models.decoder import CausalDecoder, CausalLm

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class ModelHead(nn.Module):
    """A causal LM without its layers: last hidden states in, logits out, scaled and capped as its family does.

    It shares the model's weights.
    """

    def __init__(self, model: "PreTrainedModel", projection: nn.Module | None = None):
        """`projection` replaces the linear layer to the vocabulary, None to keep it."""
        super().__init__()
        # Its own modules, so that the model keeps its stack; not a submodule, or its weights would count twice.
        shell: Any = copy.copy(model)
        shell._modules = dict(model._modules)
        shell._modules[_stack_name(model)] = _GivenStates()
        if projection is not None:
            shell.set_output_embeddings(projection)
        self._shell = [shell]
        self._model = [model]

    @property
    def projection(self) -> nn.Module:
        """The linear layer to the whole vocabulary."""
        model: Any = self._model[0]  # the shell has no embeddings, without which it names no head
        found: nn.Module = model.get_output_embeddings()
        return found

    def with_projection(self, projection: nn.Module) -> "ModelHead":
        """The same head to another vocabulary."""
        return ModelHead(self._model[0], projection)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """`[..., vocabulary]` from `[..., E]`, the states after the final norm."""
        shell: Any = self._shell[0]
        # The class's own: loaders may have put a wrapper into the instance, which runs the whole model.
        logits: torch.Tensor = type(shell).forward(shell, inputs_embeds=hidden.reshape(1, -1, hidden.shape[-1])).logits
        return logits.view(*hidden.shape[:-1], logits.shape[-1])


class _GivenStates(nn.Module):
    """Stands where a model's stack is, and returns what it gets."""

    def forward(self, *_: object, inputs_embeds: torch.Tensor, **__: object) -> "_StackOutput":
        return _StackOutput([inputs_embeds])


class _StackOutput(tuple[torch.Tensor, ...]):
    """Last hidden states, and None for everything else that a family's head may pass on."""

    @property
    def last_hidden_state(self) -> torch.Tensor:
        return self[0]

    def __getattr__(self, _: str) -> None:
        return None


def stack_of(model: CausalLm) -> nn.Module:
    """Everything before the head: embeddings, layers, final norm."""
    return model.get_submodule(_stack_name(model))


def layers_of(model: CausalLm) -> nn.ModuleList:
    """The decoder layers."""
    return next(each for each in stack_of(model).children() if isinstance(each, nn.ModuleList))


def _stack_name(model: CausalLm) -> str:
    if isinstance(model, CausalDecoder):
        return "model"
    # `base_model_prefix` is wrong in some families.
    return next(name for name, each in model.named_children() if hasattr(each, "base_model_prefix"))


def head_of(model: CausalLm) -> nn.Module:
    """From `[..., E]`, last hidden states after the final norm, to logits `[..., vocabulary]`."""
    return model.lm_head if isinstance(model, CausalDecoder) else ModelHead(model)


def projection_of(head: nn.Module) -> nn.Module:
    """The linear layer of a head."""
    return head.projection if isinstance(head, ModelHead) else head


def with_projection(head: nn.Module, projection: nn.Module) -> nn.Module:
    """The head with another linear layer: what its family does to logits stays."""
    return head.with_projection(projection) if isinstance(head, ModelHead) else projection
