"""Holds a recipe's loss against its drafter, one token at a time: it has to learn from what inference sees."""

import torch
from torch.nn.functional import kl_div, log_softmax

from common.codec import encode
from common.models.packed import PackedModel
from common.models.segment import Segment
from common.protocol.messages import State, StateRequest
from training.draft_models.features import FrozenTarget
from training.draft_models.lags import Received
from training.draft_models.recipe import Batch

CONTEXT = 64


def drafted_divergence(recipe, target: FrozenTarget, batch: Batch, received: Received) -> float:
    """The mean divergence of learned positions, each drafted for anew with the draft state that it has received."""
    exporter, found = recipe.exporter(), []
    before = target.config._attn_implementation
    for row, ids in enumerate(batch.ids.tolist()):
        packed = PackedModel(target.model, CONTEXT, taps=set(exporter.taps))
        count = len(ids)
        packed.forward([Segment(ids, range(count), range(-1, count - 1))])
        states = exporter.export(packed.pool, torch.arange(count))
        target.model.set_attn_implementation(before)
        wanted = log_softmax(target.model(batch.ids[row : row + 1]).logits[0].float(), -1)
        for column in batch.learn[row].nonzero().flatten().tolist():
            network = recipe.network(recipe._tail, StateRequest("trained"), CONTEXT, 8)
            own = [
                position for position in range(int(received.newest[row, column]) + 1) if received.held[row, position]
            ]
            for position in own:
                one = states[position : position + 1]
                shape = tuple(one.shape)
                state = State(0, position, 1, exporter.kind, "float16", shape, encode(one, "float16"))
                network.absorb([state], range(column + 1))
            prefix = Segment(ids[: column + 1], range(column + 1), range(-1, column), wanted=[column])
            given = log_softmax(network.forward(prefix)[0].float(), -1)
            found.append(float(kl_div(given, wanted[column], reduction="sum", log_target=True)))
    return sum(found) / len(found)
