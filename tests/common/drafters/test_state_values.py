"""Draft state whose positions have another shape than the draft model reads is the server's fault, and said so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from common.codec import encode
from common.draft_models.exporters import FusedExporter, LastKeyValuesExporter
from common.drafters.glide import GlideNetwork
from common.drafters.state_values import state_values
from common.drafters.tandem import TandemNetwork
from common.models.parts import head_of
from common.protocol.errors import PeerError
from common.protocol.messages import State
from common.protocol.views import TreeView
from tests.common.draft_models import published_dflash
from tests.common.drafters import (
    crossing,
    test_dflash,
    test_eagle,
    test_glide,
    test_medusa,
    test_moa,
    test_path_heads,
    test_tandem,
)

TOKENS = (11, 45, 7, 201, 99, 45, 7)


@dataclass(frozen=True)
class Reader:
    """What takes draft state in, and what it takes."""

    take: Callable[[Sequence[State]], object]
    states: Sequence[State]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return crossing.Scene(tmp_path_factory.mktemp("target"), taps=(1, 2, 3, 4))


def eagle(folder, scene):
    made = test_eagle.Scene(folder)
    return Reader(partial(made.drafter().draft, TreeView(TOKENS, ())), [made.frame(0, 3)])


def heads(kind, folder, scene):
    made = test_path_heads.Scene(folder, kind)
    return Reader(partial(made.drafter(breadth=3).draft, TreeView(TOKENS, ())), [made.frame(0, 3)])


def medusa(folder, scene):
    config = test_medusa.MedusaConfig(test_medusa.HIDDEN, test_medusa.VOCAB, test_medusa.ACCURACIES)
    drafter = test_medusa.drafter_of(test_medusa.MedusaDraft(config).double())
    frame = test_medusa.frame(torch.ones(3, test_medusa.HIDDEN), 0, 3)
    return Reader(partial(drafter.draft, TreeView(TOKENS, ())), [frame])


def moa(depth, folder, scene):
    made = test_moa.Scene(folder, "llama", depth)
    return Reader(partial(made.drafter().draft, TreeView(TOKENS, ())), made.frames(0, 3))


def of_network(network, frames):
    return Reader(partial(network.absorb, past_slots=range(len(crossing.TOKENS))), frames)


def glide(folder, scene):
    draft = test_glide.draft_for(scene, layers=1)
    network = GlideNetwork(draft, scene.tail, head_of(scene.tail), crossing.REQUEST, crossing.CONTEXT, crossing.SPARE)
    width = draft.config.layer.kv_heads * draft.config.layer.head_dim
    return of_network(network, scene.frames(LastKeyValuesExporter(width), range(3)))


def tandem(folder, scene):
    layer = test_glide.draft_for(scene, layers=1).config.layer
    config = test_tandem.TandemConfig(layer, 2, test_tandem.TAPS, test_tandem.WIDTH)
    draft, fuse = test_tandem.TandemDraft(config).double(), test_tandem.make_fuse(config).double()
    network = TandemNetwork(draft, scene.tail, head_of(scene.tail), crossing.REQUEST, crossing.CONTEXT, crossing.SPARE)
    return of_network(network, scene.frames(FusedExporter(fuse, test_tandem.TAPS), range(3)))


def dflash(folder, scene):
    sizes = scene.target.config
    published = published_dflash.write(folder, sizes.hidden_size, sizes.vocab_size)
    network = test_dflash.network_for(scene, published)
    return Reader(network.absorb, scene.frames(test_dflash.exporter_for(published), range(3)))


READERS = {
    "eagle": eagle,
    "hydra++": partial(heads, "hydra++"),
    "clover": partial(heads, "clover"),
    "medusa": medusa,
    "moa": partial(moa, 0),
    "moa with the target's last layer": partial(moa, 1),
    "glide": glide,
    "tandem": tandem,
    "dflash": dflash,
}


def shaped(frame: State, *position: int) -> State:
    values = torch.ones(frame.count, *position)
    return replace(frame, shape=tuple(values.shape), payload=encode(values, frame.dtype))


@pytest.mark.parametrize("make", READERS.values(), ids=list(READERS))
def test_each_kind_of_drafter_refuses_state_that_is_wider_or_narrower(make, scene, tmp_path):
    reader = make(tmp_path, scene)
    reader.take(reader.states)
    for frame in reader.states:
        *axes, width = frame.shape[1:]
        for other in (1, width - 1, 2 * width):
            with pytest.raises(PeerError, match=f"sends '{frame.kind}' of the shape"):
                reader.take([shaped(frame, *axes, other)])


def test_k_v_of_fewer_layers_than_the_draft_runs_are_refused(tmp_path):
    made = test_moa.Scene(tmp_path, "llama", 2)
    frame = next(each for each in made.frames(0, 3) if each.kind == "kv")
    layers, *others = frame.shape[1:]
    made.drafter().draft(TreeView(TOKENS, ()), [shaped(frame, layers + 1, *others)])
    with pytest.raises(PeerError, match="'kv' of the shape"):
        made.drafter().draft(TreeView(TOKENS, ()), [shaped(frame, 1, *others)])


def test_values_come_in_the_dtype_of_the_network():
    numbers = torch.arange(12.0).view(3, 4)
    frame = State(0, 5, 2, "hidden", "float16", (3, 4), encode(numbers, "float16"))
    values = state_values(frame, torch.empty(0, dtype=torch.float64), 4)
    assert values.dtype == torch.float64
    assert torch.equal(values, numbers[:2].double())
