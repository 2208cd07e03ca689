"""EAGLE-3's draft (Li et al. 2025, arXiv 2503.01840): one decoder layer, or several, that continue hidden states of
three of the target's layers, fused into one vector, and reading it from the layouts in which such drafts are published.

What may live here: the network, its configuration, its files. It may not know caches, trees, losses or which states
have arrived. Fusing is the server's part, all else the client's. Our directories are in the layout of EAGLE-3's
authors, except that the weights that fuse lie in the exporter's file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from common.draft_kinds import KIND_KEY
from common.draft_models.directory import EXPORTER_WEIGHTS, DraftFacts, load_into, network_from, save_draft
from common.draft_models.layers import Attention, DecoderLayer, LayerShape, RmsNorm
from common.draft_models.layouts import EAGLE3, SERVER_PREFIX, published_names, recognise, rename
from common.draft_models.published_layers import check_settings, count_layers, layer_settings, read_layer_shapes
from common.draft_models.weight_files import read_tensors
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json

# Shape letters: B rows, T tokens, E the draft's hidden size, E_t the target's, V its vocabulary, D the draft's.

KIND = "eagle3"

TAPS = 3
"""The target's layers whose hidden states are fused."""

_TAPS_KEY = "eagle_aux_hidden_state_layer_ids"
_NORM_FIRST_KEY = "norm_before_residual"
_NORM_OUTPUT_KEY = "norm_output"
_EAGLE_KEY = "eagle_config"
"""Where some publishers put what only EAGLE's drafts have."""
_OWN_SETTINGS = {
    "is_causal": True,
    "use_aux_hidden_state": True,
    "use_input_layernorm_in_first_layer": True,
    "use_last_layernorm": True,
    "use_mtp_layernorm": False,
}
"""What is computed here, of settings of EAGLE-3 alone that a published draft may have otherwise."""


@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """`vocabulary`: tokens of the target; `draft_vocabulary`: those that the draft's head knows. `norm_first`: the
    residual is the normalised feature. `norm_output`: it continues its output after the final norm, in place of before.
    `own_embedding`, `own_head`: it brings them, in place of the target's. `further`: layers behind the first, of
    Llama's form."""

    layer: LayerShape
    vocabulary: int
    draft_vocabulary: int
    norm_first: bool = False
    norm_output: bool = False
    own_embedding: bool = False
    own_head: bool = True
    further: tuple[LayerShape, ...] = ()

    @property
    def hidden(self) -> int:
        return self.layer.hidden

    @property
    def layers(self) -> tuple[LayerShape, ...]:
        """All layers that attend."""
        return self.layer, *self.further


class Eagle3Draft(nn.Module):
    """Row i of a sequence takes the embedding of token i + 1 and the feature of token i: the fused state, or the
    output of row i - 1 in its place. Its output is the feature for row i + 1, and predicts token i + 2."""

    def __init__(self, config: Eagle3Config):
        super().__init__()
        self.config = config
        hidden, epsilon = config.hidden, config.layer.epsilon
        self.embedding = nn.Embedding(config.vocabulary, hidden) if config.own_embedding else None
        self.embedding_norm = RmsNorm(hidden, epsilon)
        self.feature_norm = RmsNorm(hidden, epsilon)
        self.layer = DecoderLayer(config.layer, read_vectors=2)
        self.further = nn.ModuleList(DecoderLayer(shape) for shape in config.further)
        self.norm = RmsNorm(hidden, epsilon)
        self.head = nn.Linear(hidden, config.draft_vocabulary, bias=False) if config.own_head else None

    def enter(self, embedded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """`[B, T, 2 * E]` from the tokens' embeddings and the features before them, `[B, T, E]` each."""
        return torch.cat([self.embedding_norm(embedded), features], dim=-1)

    def keys_values(self, entered: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`[B, K, S, D]` each, of the first layer: a row's depend on its own input alone."""
        return self.layer.keys_values(self._normed(entered)[1], rows)

    def forward(
        self, entered: torch.Tensor, rows: torch.Tensor, attention: Attention, *further: Attention
    ) -> torch.Tensor:
        """The outputs `[B, T, E]` of rows `[B, T]`, counted from 0 at the second token; `further` is the attention of
        each layer behind the first."""
        residual, normed = self._normed(entered)
        out: torch.Tensor = self.layer.attend(residual, normed, rows, attention)
        for layer, attends in zip(self.further, further, strict=True):
            out = layer(out, rows, attends)
        if self.config.norm_output:
            out = self.norm(out)
        return out

    def logits(self, out: torch.Tensor, target_head: nn.Module) -> torch.Tensor:
        """`[..., D]` of outputs `[..., E]`, by `target_head` where the draft has no head of its own."""
        head = target_head if self.head is None else self.head
        logits: torch.Tensor = head(out if self.config.norm_output else self.norm(out))
        return logits

    def _normed(self, entered: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The residual `[B, T, E]`, and what attention reads `[B, T, 2 * E]`."""
        embedded, feature = torch.split(entered, self.config.hidden, dim=-1)
        normed = self.feature_norm(feature)
        return normed if self.config.norm_first else feature, torch.cat([embedded, normed], dim=-1)


class Eagle3Fuse(nn.Linear):
    """The server's half: `[..., 3 * E_t]`, the states at the taps, to `[..., E]`. `norm_all` normalises them as one
    vector before, `norm_each` each of them, as drafts of speculators may (their `norm_before_fc` and `fc_norm`)."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = False,
        norm_all: bool = False,
        norm_each: bool = False,
        epsilon: float = 1e-5,
    ):
        super().__init__(inputs, outputs, bias=bias)
        self.input_norm = RmsNorm(inputs, epsilon) if norm_all else nn.Identity()
        self.tap_norms = nn.ModuleList(RmsNorm(inputs // TAPS, epsilon) for _ in range(TAPS if norm_each else 0))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        states = self.input_norm(states)
        if self.tap_norms:
            parts = zip(self.tap_norms, states.chunk(TAPS, dim=-1), strict=True)
            states = torch.cat([norm(part) for norm, part in parts], dim=-1)
        return super().forward(states)


def default_taps(layers: int) -> tuple[int, ...]:
    """The layers of a target whose inputs are fused where a draft names none, from 0: those that EAGLE-3's authors
    chose, and in a target of fewer than six layers a low, a middle and the last one."""
    if layers < 2 * TAPS:
        return min(1, layers - 1), layers // 2, layers - 1
    return 2, layers // 2, layers - 3


def save_eagle3(
    directory: Path,
    fingerprint: str,
    draft: Eagle3Draft,
    fuse: Eagle3Fuse,
    taps: Sequence[int],
    kept: torch.Tensor | None = None,
) -> None:
    """`fuse` maps `[3 * E_t]` to `[E]`. `kept`: the tokens of the head's rows, int64 `[D]`; None for all."""
    config, shape = draft.config, draft.config.layer
    windows = [each.sliding_window for each in config.layers]
    content = {
        "architectures": [EAGLE3.architecture],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": len(config.layers),
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_base,
        "rope_scaling": None if shape.rope_scaling is None else asdict(shape.rope_scaling),
        "sliding_window": next(filter(None, windows), None),
        "layer_types": ["full_attention" if each is None else "sliding_attention" for each in windows],
        "vocab_size": config.vocabulary,
        "draft_vocab_size": config.draft_vocabulary,
        _NORM_FIRST_KEY: config.norm_first,
        _NORM_OUTPUT_KEY: config.norm_output,
        _TAPS_KEY: list(taps),
    }
    names = published_names(EAGLE3, layers=len(config.layers))
    own = {names[name]: tensor for name, tensor in draft.state_dict().items()}
    fusing = {names[SERVER_PREFIX + name]: tensor for name, tensor in fuse.state_dict().items()}
    save_draft(directory, KIND, fingerprint, content, own | _maps(config, kept), fusing)


def load_eagle3(directory: Path) -> tuple[Eagle3Draft, torch.Tensor | None]:
    """The client's half, frozen, as it was saved, and the tokens of its head's rows, None for the target's vocabulary.

    Takes our directories and published ones. Raises CheckpointError for anything else.
    """
    config, tensors, kept = _read(directory)
    return _draft(config, tensors, directory), kept


def load_fuse(directory: Path) -> Eagle3Fuse:
    """The server's half, frozen. Raises CheckpointError where it is not there or broken."""
    config, tensors, _ = _read(directory, with_exporter=True)
    return _fuse(config, tensors, directory)


def read_taps(directory: Path, layers: int) -> tuple[int, ...]:
    """The layers of a target of `layers` layers whose inputs the draft reads, from 0; `layers` is what leaves the last.

    Raises CheckpointError where its configuration names what cannot be.
    """
    return _named_taps(directory) or default_taps(layers)


def read_facts(directory: Path) -> DraftFacts:
    """Raises CheckpointError where `directory` holds no EAGLE-3 draft, or one that is broken."""
    config, tensors, kept = _read(directory, with_exporter=True)
    _draft(config, tensors, directory)
    fuse = _fuse(config, tensors, directory)
    hidden = fuse.in_features // TAPS
    meets_target = not (config.own_embedding and config.own_head)
    if fuse.out_features != config.hidden or (hidden != config.hidden and meets_target):
        raise CheckpointError(f"the weights in {directory} do not fit its {CONFIG}; fetch or train it again")
    return DraftFacts(
        hidden=hidden,
        vocabulary=config.vocabulary,
        least_layers=max(_named_taps(directory), default=0),
        proposable=None if kept is None else len(kept),
    )


def _draft(config: Eagle3Config, tensors: Mapping[str, torch.Tensor], directory: Path) -> Eagle3Draft:
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(SERVER_PREFIX)}
    return network_from(lambda: Eagle3Draft(config), own, directory)


def _fuse(config: Eagle3Config, tensors: Mapping[str, torch.Tensor], directory: Path) -> Eagle3Fuse:
    own = {
        name.removeprefix(SERVER_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(SERVER_PREFIX)
    }
    outputs, inputs = own["weight"].shape if own["weight"].ndim == 2 else (0, 0)
    if not outputs or not inputs or inputs % TAPS:
        raise CheckpointError(f"the weights in {directory} fuse no hidden states of {TAPS} layers; fetch it again")
    fuse = Eagle3Fuse(
        inputs,
        outputs,
        bias="bias" in own,
        norm_all="input_norm.weight" in own,
        norm_each="tap_norms.0.weight" in own,
        epsilon=config.layer.epsilon,
    )
    load_into(fuse, own, directory)
    return fuse


def _named_taps(directory: Path) -> tuple[int, ...]:
    """The taps that a configuration names, empty for none. In its top, a number names the layer that the hidden states
    enter, as in vLLM and speculators; under `eagle_config`, the one that they leave, as in SGLang."""
    config = read_json(directory / CONFIG)
    try:
        left = (config.get(_EAGLE_KEY) or {}).get(_TAPS_KEY) or ()
        taps = tuple(int(each) for each in config.get(_TAPS_KEY) or ()) or tuple(int(each) + 1 for each in left)
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} has broken '{_TAPS_KEY}'; fetch it again") from error
    if taps and (len(taps) != TAPS or min(taps) < 0):
        raise CheckpointError(f"the draft in {directory} does not read {TAPS} layers of its target; name another")
    return taps


def _read(
    directory: Path, *, with_exporter: bool = False
) -> tuple[Eagle3Config, dict[str, torch.Tensor], torch.Tensor | None]:
    """The configuration, the network's tensors under our names, and the tokens of the head's rows."""
    content = read_json(directory / CONFIG)
    layout = EAGLE3 if KIND_KEY in content else recognise(directory)
    if layout is None or layout.kind != KIND or content.get(KIND_KEY, KIND) != KIND:
        raise CheckpointError(f"{directory} holds no EAGLE-3 draft; name another directory")
    tensors = read_tensors(directory)
    if with_exporter and KIND_KEY in content:
        tensors |= read_tensors(directory, EXPORTER_WEIGHTS)
    # A bundle has no weights that fuse.
    elsewhere = () if with_exporter else (f"{SERVER_PREFIX}weight",)
    settings = layer_settings(layout, directory)
    layers = count_layers(layout, settings, tensors, directory)
    renamed = rename(layout, tensors, directory, elsewhere, layers=layers)
    kept = _kept(renamed, directory)
    shapes = read_layer_shapes(settings, renamed, directory, layers)
    return _config(content, settings, shapes, renamed, kept, directory), renamed, kept


def _config(
    content: Mapping[str, Any],
    settings: Mapping[str, Any],
    shapes: Sequence[LayerShape],
    tensors: Mapping[str, torch.Tensor],
    kept: torch.Tensor | None,
    directory: Path,
) -> Eagle3Config:
    head, embedding = tensors.get("head.weight"), tensors.get("embedding.weight")
    if head is None and kept is not None:
        raise CheckpointError(f"{directory} names the tokens of a head of its own, but lacks it; fetch it again")
    if head is None and embedding is not None and content.get("tie_word_embeddings"):
        # SGLang's head is the embedding, and that its target's if the widths agree; vLLM's is its target's head.
        raise CheckpointError(
            f"the draft in {directory} ties its head to an embedding of its own (tie_word_embeddings), which is not "
            "read; save it with an lm_head.weight"
        )
    try:
        vocabulary = len(head) if head is not None and kept is None else int(settings["vocab_size"])
        of_eagle = dict(content.get(_EAGLE_KEY) or {}) | dict(content)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory / CONFIG} lacks the vocabulary's size; fetch it again") from error
    own = {"own_embedding": embedding is not None, "own_head": head is not None}
    check_settings({**of_eagle, **settings}, directory, **own, **_OWN_SETTINGS)
    rows = vocabulary if head is None else len(head)
    if kept is not None and not _each_has_a_token(kept, rows, vocabulary):
        raise CheckpointError(f"the map 'd2t' in {directory} does not lead from its head to tokens; fetch it again")
    if embedding is not None and len(embedding) != vocabulary:
        raise CheckpointError(f"the embedding in {directory} is not of {vocabulary} tokens; fetch it again")
    return Eagle3Config(
        shapes[0],
        vocabulary,
        rows,
        norm_first=bool(of_eagle.get(_NORM_FIRST_KEY, False)),
        norm_output=bool(of_eagle.get(_NORM_OUTPUT_KEY, False)),
        **own,
        further=tuple(shapes[1:]),
    )


def _kept(tensors: dict[str, torch.Tensor], directory: Path) -> torch.Tensor | None:
    """Takes the two maps out of `tensors`: `d2t [D]` is the way from a row of the head to its token, `t2d [V]` says
    which tokens have a row. Where all have one, they say nothing. Raises CheckpointError where they contradict each
    other."""
    offsets, mask = tensors.pop("d2t", None), tensors.pop("t2d", None)
    if offsets is None or (mask is not None and len(offsets) == len(mask)):
        return None
    kept = offsets.long() + torch.arange(len(offsets))
    if mask is not None:
        marked = mask.bool().nonzero().flatten()
        if not torch.equal(marked, kept.sort().values):
            raise CheckpointError(f"the maps 'd2t' and 't2d' in {directory} contradict each other; fetch it again")
    return kept


def _each_has_a_token(kept: torch.Tensor, rows: int, vocabulary: int) -> bool:
    """Whether each of a head's `rows` has a token of its own."""
    if not len(kept) == len(set(kept.tolist())) == rows > 0:
        return False
    return bool(kept.min() >= 0) and bool(kept.max() < vocabulary)


def _maps(config: Eagle3Config, kept: torch.Tensor | None) -> dict[str, torch.Tensor]:
    tokens = torch.arange(config.vocabulary) if kept is None else kept
    mask = torch.zeros(config.vocabulary, dtype=torch.bool)
    mask[tokens] = True
    return {"d2t": tokens - torch.arange(len(tokens)), "t2d": mask}
