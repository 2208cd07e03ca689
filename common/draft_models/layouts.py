"""Published layouts of draft models: how each is recognised, and one table from its names of tensors to ours.

What may live here: the layouts as plain data, and renaming by them. It may not know any network, nor run anything.

Sources: EAGLE-1/2 and EAGLE-3 as in github.com/SafeAILab/EAGLE (`cnets1.py`, `cnets.py`), Medusa as in
github.com/FasterDecoding/Medusa (`medusa_model.py`), Hydra as in github.com/zankner/Hydra (`hydra_heads`), DFlash as in
github.com/z-lab/dflash (`dflash/model.py`), and the two of github.com/vllm-project/speculators.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from common.draft_models.weight_files import tensor_names
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

SERVER_PREFIX = "fuse."
"""How our names of tensors begin that only the server computes with."""

_SPECULATORS_TYPE = "speculators_model_type"
_MOST_LISTED = 3  # missing tensors in a sentence

_LLAMA_LAYER = {
    "self_attn.q_proj.weight": "q_proj.weight",
    "self_attn.k_proj.weight": "k_proj.weight",
    "self_attn.v_proj.weight": "v_proj.weight",
    "self_attn.o_proj.weight": "o_proj.weight",
    "mlp.gate_proj.weight": "gate_proj.weight",
    "mlp.up_proj.weight": "up_proj.weight",
    "mlp.down_proj.weight": "down_proj.weight",
    "post_attention_layernorm.weight": "post_norm.weight",
}
_BIASES = {f"self_attn.{name}.bias": f"{name}.bias" for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
_LAYER_OPTIONAL = {
    **_BIASES,
    **{f"self_attn.{name}.weight": f"{name}.weight" for name in ("q_norm", "k_norm")},
}


@dataclass(frozen=True, slots=True)
class Layout:
    """One published layout. `names` maps every tensor that it must hold to ours, `optional` those that it may hold;
    `unused` are those that a draft needs nothing of here. Where both sides of a line say `{head}` and `{block}`, it
    stands for one of each, and `{odd}` for 2 * block + 1; `{layer}` counts layers behind the first from 1, `{further}`
    from 0.

    It is recognised by the first of these that applies: `speculators_type` in its configuration, one of
    `config_keys` in it, `architecture`, or a tensor whose name begins as one of `marks`. A `prefix` of names is left
    out; where some begin with it, all others are the target's. `layer_key` is where the configuration has the layers'
    sizes, None for its top.
    """

    title: str
    kind: str
    names: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    speculators_type: str | None = None
    config_keys: tuple[str, ...] = ()
    architecture: str | None = None
    marks: tuple[str, ...] = ()
    prefix: str = ""
    layer_key: str | None = None

    @property
    def prefix_layer(self) -> bool:
        """Whether Hydra's heads stand behind a layer."""
        return any(ours.startswith("prefix.") for ours in self.names.values())

    @property
    def embedding(self) -> str | None:
        """The name of the draft's own embedding, None where it has none."""
        return next((name for name, ours in self.optional.items() if ours == "embedding.weight"), None)

    @property
    def counts_layers(self) -> bool:
        """Whether there may be layers behind the first."""
        return any("{layer}" in name for name in self.names)

    def is_for_client(self, name: str) -> bool:
        """Whether a client needs the tensor: not where only the server computes with it, or nobody does."""
        ours = {**self.names, **self.optional}.get(name, name)
        return name not in self.unused and not ours.startswith(SERVER_PREFIX)


def _lines(names: Mapping[str, str], published: str, ours: str = "layer") -> dict[str, str]:
    return {f"{published}.{name}": f"{ours}.{own}" for name, own in names.items()}


_FURTHER_LAYERS = {
    **_lines(_LLAMA_LAYER, "layers.{layer}", "further.{further}"),
    "layers.{layer}.input_layernorm.weight": "further.{further}.input_norm.weight",
}
_FURTHER_OPTIONAL = _lines(_LAYER_OPTIONAL, "layers.{layer}", "further.{further}")


def _eagle3(layer: str) -> dict[str, str]:
    return {
        **_lines(_LLAMA_LAYER, layer),
        f"{layer}.input_layernorm.weight": "embedding_norm.weight",
        f"{layer}.hidden_norm.weight": "feature_norm.weight",
        **_FURTHER_LAYERS,
        "fc.weight": "fuse.weight",
        "norm.weight": "norm.weight",
    }


def _eagle3_optional(layer: str) -> dict[str, str]:
    own = {"fc.bias": "fuse.bias", "d2t": "d2t", "t2d": "t2d"}
    own |= {"embed_tokens.weight": "embedding.weight", "lm_head.weight": "head.weight"}
    norms = {f"fc_norm.{tap}.weight": f"fuse.tap_norms.{tap}.weight" for tap in range(3)}
    layers = _lines(_LAYER_OPTIONAL, layer) | _FURTHER_OPTIONAL
    return own | norms | {"input_norm.weight": "fuse.input_norm.weight"} | layers


SPECULATORS_EAGLE3 = Layout(
    title="an EAGLE-3 draft in the layout of speculators",
    kind="eagle3",
    names=_eagle3("layers.0"),
    optional=_eagle3_optional("layers.0"),
    speculators_type="eagle3",
    marks=("layers.0.hidden_norm.",),
    layer_key="transformer_layer_config",
)
SPECULATORS_EAGLE = Layout(
    title="an EAGLE draft in the layout of speculators",
    kind="eagle",
    names={"fusion_fc.weight": "fc.weight", **_lines(_LLAMA_LAYER, "transformer")},
    optional={"fusion_fc.bias": "fc.bias", **_lines(_LAYER_OPTIONAL, "transformer")},
    unused=frozenset({"embed_tokens.weight", "lm_head.weight"}),
    speculators_type="eagle",
    marks=("fusion_fc.",),
    layer_key="transformer_layer_config",
)
EAGLE3 = Layout(
    title="an EAGLE-3 draft as its authors publish it",
    kind="eagle3",
    names=_eagle3("midlayer"),
    optional=_eagle3_optional("midlayer"),
    architecture="LlamaForCausalLMEagle3",
    marks=("midlayer.",),
)
MEDUSA = Layout(
    title="Medusa heads as their authors publish them",
    kind="medusa",
    names={
        "{head}.{block}.linear.weight": "trunks.{head}.{block}.linear.weight",
        "{head}.{block}.linear.bias": "trunks.{head}.{block}.linear.bias",
        "{head}.{blocks}.weight": "heads.{head}.weight",
    },
    config_keys=("medusa_num_heads",),
    marks=("0.0.linear.", "medusa_head."),
    prefix="medusa_head.",
)


def _hydra(block: str, head: str) -> dict[str, str]:
    """`block` and `head` are the names inside a head's lists of its blocks and of its last layer: where there is
    dropout in training, it takes every other number."""
    first, last = f"hydra_mlp.{{head}}.{block}".replace("{block}", "0").replace("{odd}", "1"), f"hydra_lm_head.{head}"
    names = {f"{first}.res_connection.{part}": f"trunks.{{head}}.0.residual.{part}" for part in ("weight", "bias")}
    for part in ("weight", "bias"):
        names[f"hydra_mlp.{{head}}.{block}.linear.{part}"] = f"trunks.{{head}}.{{block}}.linear.{part}"
    return names | {f"{last}.weight": "heads.{head}.weight"}


# The embedding is the target's; old versions of transformers save the frequencies of rotary positions.
_HYDRA_UNUSED = frozenset(
    {
        "input_embed_fn.weight",
        "prefix_embeding_layer.embed_tokens.weight",
        "prefix_embeding_layer.layers.0.self_attn.rotary_emb.inv_freq",
    }
)
HYDRA_PLUS = Layout(
    title="Hydra++ heads as their authors publish them",
    kind="hydra",
    names={
        **_hydra("{odd}", "{head}.1"),
        **_lines(_LLAMA_LAYER, "prefix_embeding_layer.layers.0", "prefix.layer"),
        "prefix_embeding_layer.layers.0.input_layernorm.weight": "prefix.layer.input_norm.weight",
        "prefix_embeding_layer.norm.weight": "prefix.norm.weight",
    },
    optional={
        "hydra_lm_head.{head}.1.bias": "heads.{head}.bias",
        **_lines(_LAYER_OPTIONAL, "prefix_embeding_layer.layers.0", "prefix.layer"),
    },
    unused=_HYDRA_UNUSED,
    marks=("prefix_embeding_layer.",),
)
HYDRA = Layout(
    title="Hydra heads as their authors publish them",
    kind="hydra",
    names=_hydra("{block}", "{head}"),
    optional={"hydra_lm_head.{head}.bias": "heads.{head}.bias"},
    unused=_HYDRA_UNUSED,
    marks=("hydra_mlp.",),
)
EAGLE = Layout(
    title="an EAGLE-1/2 draft as its authors publish it",
    kind="eagle",
    names={"fc.weight": "fc.weight", **_lines(_LLAMA_LAYER, "layers.0"), **_FURTHER_LAYERS},
    optional={"fc.bias": "fc.bias", **_lines(_LAYER_OPTIONAL, "layers.0"), **_FURTHER_OPTIONAL},
    unused=frozenset({"embed_tokens.weight"}),
    marks=("fc.",),
)

_DFLASH_LAYER = {
    **_LLAMA_LAYER,
    "input_layernorm.weight": "input_norm.weight",
    "self_attn.q_norm.weight": "q_norm.weight",
    "self_attn.k_norm.weight": "k_norm.weight",
}
DFLASH = Layout(
    title="a DFlash draft as its authors publish it",
    kind="dflash",
    names={
        **_lines(_DFLASH_LAYER, "layers.0", "layers.0"),
        **_lines(_DFLASH_LAYER, "layers.{layer}", "layers.{layer}"),
        "fc.weight": "fuse.weight",
        "hidden_norm.weight": "fuse.out_norm.weight",
        "norm.weight": "norm.weight",
    },
    optional={
        **_lines(_BIASES, "layers.0", "layers.0"),
        **_lines(_BIASES, "layers.{layer}", "layers.{layer}"),
    },
    config_keys=("dflash_config",),
    architecture="DFlashDraftModel",
    marks=("hidden_norm.",),
)

LAYOUTS = (SPECULATORS_EAGLE3, SPECULATORS_EAGLE, EAGLE3, DFLASH, MEDUSA, HYDRA_PLUS, HYDRA, EAGLE)
"""In the order in which they are tried: what marks a later one may also occur in one before."""


def recognise(directory: Path) -> Layout | None:
    """The published layout of the draft in `directory`, None where it is none of them. What the layout demands is not
    checked.

    Raises CheckpointError where the configuration cannot be read, or is of a draft that nothing here reads.
    """
    config = read_json(directory / CONFIG)
    kind = config.get(_SPECULATORS_TYPE)
    for layout in LAYOUTS:
        if kind is not None and kind == layout.speculators_type:
            return layout
    if kind is not None:
        known = ", ".join(str(layout.speculators_type) for layout in LAYOUTS if layout.speculators_type)
        raise CheckpointError(f"{directory} holds a speculators draft of type '{kind}'; of these are read: {known}")
    stated, names = config.get("architectures"), tensor_names(directory)
    architectures = stated if isinstance(stated, list) else ()
    for layout in LAYOUTS:
        if any(key in config for key in layout.config_keys) or layout.architecture in architectures:
            return layout
    return next((layout for layout in LAYOUTS if any(name.startswith(layout.marks) for name in names)), None)


def rename(
    layout: Layout,
    tensors: Mapping[str, torch.Tensor],
    directory: Path,
    elsewhere: Collection[str] = (),
    **counts: int,
) -> dict[str, torch.Tensor]:
    """The tensors under our names, without those that are not used. Of `elsewhere`, ours, none has to be there;
    `counts` of `heads`, `blocks` and `layers` are what the table is written out for.

    Raises CheckpointError where one is missing, or one is there that the layout does not know.
    """
    table = _expand(layout.names, **counts)
    known = table | _expand(layout.optional, **counts)
    found = {name.removeprefix(layout.prefix): tensor for name, tensor in tensors.items()}
    strange = [name for name in found if name not in known and name not in layout.unused]
    if strange:
        raise CheckpointError(
            f"{directory} is {layout.title}, but holds '{strange[0]}', which that has not; name another"
        )
    missing = [name for name, ours in table.items() if name not in found and ours not in elsewhere]
    if missing:
        raise CheckpointError(f"{directory} is {layout.title}, but lacks {_listed(missing)}; fetch it again")
    return {known[name]: tensor for name, tensor in found.items() if name in known}


def published_names(layout: Layout, **counts: int) -> dict[str, str]:
    """The layout's name for each of our tensors; `counts` as for `rename`."""
    return {ours: name for name, ours in _expand({**layout.names, **layout.optional}, **counts).items()}


def _expand(names: Mapping[str, str], heads: int = 1, blocks: int = 1, layers: int = 1) -> dict[str, str]:
    """A table with a line for each head, block and layer behind the first that it mentions."""
    return {
        name.format(head=head, block=block, odd=2 * block + 1, blocks=blocks, layer=layer): ours.format(
            head=head, block=block, further=layer - 1, layer=layer
        )
        for head in range(heads)
        for block in range(blocks)
        for name, ours in names.items()
        for layer in range(1, layers if "{layer}" in name else 2)
    }


def _listed(names: Sequence[str]) -> str:
    shown = [f"'{name}'" for name in names[:_MOST_LISTED]]
    return ", ".join(shown) + (f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else "")
