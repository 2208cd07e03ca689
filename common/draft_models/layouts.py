"""Published layouts of draft models: how each is recognised, and one table from its names of tensors to ours.

What may live here: the layouts as plain data, renaming by them, and reading a published layer's sizes. It may not know
any network, nor run anything.

Sources: EAGLE-1/2 and EAGLE-3 as in github.com/SafeAILab/EAGLE (`cnets1.py`, `cnets.py`), Medusa as in
github.com/FasterDecoding/Medusa (`medusa_model.py`), and the two of github.com/vllm-project/speculators.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from common.draft_models.layers import LayerShape
from common.models.errors import CheckpointError
from common.models.source import CONFIG, WEIGHTS, read_json

MEDUSA_WEIGHTS = "medusa_lm_head.safetensors"
WEIGHT_FILES = (WEIGHTS, MEDUSA_WEIGHTS)
"""The names under which a draft's weights are published; the first that is there counts."""

_PICKLED_WEIGHTS = ("pytorch_model.bin", "medusa_lm_head.pt")

_SPECULATORS_TYPE = "speculators_model_type"

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
_LLAMA_BIASES = {f"self_attn.{name}.bias": f"{name}.bias" for name in ("q_proj", "k_proj", "v_proj")}


@dataclass(frozen=True, slots=True)
class Layout:
    """One published layout. `names` maps every tensor that it must hold to ours, `optional` those that it may hold;
    `unused` are those that a draft needs nothing of here.

    It is recognised by the first of these that applies: `speculators_type` in its configuration, one of
    `config_keys` in it, `architecture`, or a tensor whose name begins as one of `marks`. A `prefix` of names is left
    out. `layer_key` is where the configuration has the layer's sizes, None for its top.
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


def _layer(published: str) -> dict[str, str]:
    return {f"{published}.{name}": f"layer.{ours}" for name, ours in _LLAMA_LAYER.items()}


def _biases(published: str) -> dict[str, str]:
    return {f"{published}.{name}": f"layer.{ours}" for name, ours in _LLAMA_BIASES.items()}


def _eagle3(layer: str) -> dict[str, str]:
    return {
        **_layer(layer),
        f"{layer}.input_layernorm.weight": "embedding_norm.weight",
        f"{layer}.hidden_norm.weight": "feature_norm.weight",
        "fc.weight": "fuse.weight",
        "norm.weight": "norm.weight",
        "lm_head.weight": "head.weight",
    }


def _eagle3_optional(layer: str) -> dict[str, str]:
    own = {"fc.bias": "fuse.bias", "embed_tokens.weight": "embedding.weight", "d2t": "d2t", "t2d": "t2d"}
    return own | _biases(layer)


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
    names={"fusion_fc.weight": "fc.weight", **_layer("transformer")},
    optional={"fusion_fc.bias": "fc.bias", **_biases("transformer")},
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
EAGLE = Layout(
    title="an EAGLE-1/2 draft as its authors publish it",
    kind="eagle",
    names={"fc.weight": "fc.weight", **_layer("layers.0")},
    optional={"fc.bias": "fc.bias", **_biases("layers.0")},
    unused=frozenset({"embed_tokens.weight"}),
    marks=("fc.",),
)

LAYOUTS = (SPECULATORS_EAGLE3, SPECULATORS_EAGLE, EAGLE3, MEDUSA, EAGLE)
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
        raise CheckpointError(f"{directory} holds a speculators draft of type '{kind}'; of these are read: {known}.")
    architectures, names = config.get("architectures") or (), _tensor_names(directory)
    for layout in LAYOUTS:
        if any(key in config for key in layout.config_keys) or layout.architecture in architectures:
            return layout
    return next((layout for layout in LAYOUTS if any(name.startswith(layout.marks) for name in names)), None)


def weights_file(directory: Path) -> Path:
    """Where a draft's weights lie. Raises CheckpointError where there are none, or only as pickle."""
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    check_pickled(directory)
    raise CheckpointError(f"{directory} has no weights as safetensors; put its {WEIGHTS} there.")


def check_pickled(directory: Path) -> None:
    """Raises CheckpointError where weights are there as pickle alone, with how to convert them."""
    for name in _PICKLED_WEIGHTS:
        if (directory / name).is_file() and not any(directory.glob("*.safetensors")):
            raise CheckpointError(
                f"{directory} holds its weights as {name}, which can run code when it is read; convert it there with "
                f'`python -c "import torch, safetensors.torch as s; s.save_file({{k: v.clone() for k, v in '
                f"torch.load('{name}', map_location='cpu', weights_only=True).items()}}, '{WEIGHTS}')\"`, which reads "
                "tensors alone."
            )


def _tensor_names(directory: Path) -> set[str]:
    """Those of a draft's weights; none where there is no such file, or a broken one, which loading it tells."""
    file = next((directory / name for name in WEIGHT_FILES if (directory / name).is_file()), None)
    try:
        if file is not None:
            with safe_open(file, framework="pt") as source:
                return set(source.keys())
    except (OSError, SafetensorError):
        pass
    return set()


def rename(
    layout: Layout,
    tensors: Mapping[str, torch.Tensor],
    directory: Path,
    elsewhere: Collection[str] = (),
    **fields: int,
) -> dict[str, torch.Tensor]:
    """The tensors under our names, without those that are not used. Of `elsewhere`, ours, none has to be there;
    `fields` are the sizes by which a table of many heads is written out.

    Raises CheckpointError where one is missing, or one is there that the layout does not know.
    """
    table = _expand(layout.names, **fields)
    known = table | dict(layout.optional)
    found = {name.removeprefix(layout.prefix): tensor for name, tensor in tensors.items()}
    strange = [name for name in found if name not in known and name not in layout.unused]
    if strange:
        raise CheckpointError(
            f"{directory} is {layout.title}, but holds '{strange[0]}', which that has not; name another."
        )
    missing = [name for name, ours in table.items() if name not in found and ours not in elsewhere]
    if missing:
        raise CheckpointError(f"{directory} is {layout.title}, but lacks {_listed(missing)}; fetch it again.")
    return {known[name]: tensor for name, tensor in found.items() if name in known}


def published_names(layout: Layout) -> dict[str, str]:
    """The layout's name for each of our tensors."""
    return {ours: name for name, ours in {**layout.names, **layout.optional}.items()}


def _expand(names: Mapping[str, str], heads: int = 1, blocks: int = 1) -> dict[str, str]:
    """A table with a line for each head and block that it mentions."""
    return {
        name.format(head=head, block=block, blocks=blocks): ours.format(head=head, block=block)
        for head in range(heads)
        for block in range(blocks)
        for name, ours in names.items()
    }


def _listed(names: Collection[str], most: int = 3) -> str:
    shown = [f"'{name}'" for name in list(names)[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def read_layer_shape(layout: Layout, tensors: Mapping[str, torch.Tensor], directory: Path) -> LayerShape:
    """The sizes of a published layer, without input norm; biases are read off `tensors`, which have our names. What a
    configuration leaves out is Llama's default.

    Raises CheckpointError where sizes are missing, or rotary positions are scaled.
    """
    content = read_json(directory / CONFIG)
    if layout.layer_key is not None:
        content = content.get(layout.layer_key, content)
    try:
        rope = content.get("rope_parameters") or {}
        scaling = content.get("rope_scaling") or rope
        scaled = scaling.get("rope_type", scaling.get("type", "default")) != "default"
        hidden, heads = int(content["hidden_size"]), int(content["num_attention_heads"])
        shape = LayerShape(
            hidden=hidden,
            heads=heads,
            kv_heads=int(content.get("num_key_value_heads") or heads),
            head_dim=int(content.get("head_dim") or hidden // heads),
            intermediate=int(content["intermediate_size"]),
            rope_base=float(content.get("rope_theta") or rope.get("rope_theta") or 10_000.0),
            epsilon=float(content.get("rms_norm_eps", 1e-6)),
            input_norm=False,
            attention_bias="layer.q_proj.bias" in tensors,
        )
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise CheckpointError(f"{directory / CONFIG} lacks the sizes of a Llama layer; fetch it again.") from error
    if scaled:
        raise CheckpointError(f"the draft in {directory} scales its rotary positions; name one that does not.")
    return shape
