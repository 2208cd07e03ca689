"""Small random drafts for any checkpoint, for all tests. Weights depend on the arguments alone."""

from pathlib import Path
from typing import TypeVar

import torch

from common.draft_models import dflash, tandem
from common.draft_models.block import BlockConfig, BlockDraft, save_block
from common.draft_models.clover import CloverConfig, CloverDraft, save_clover
from common.draft_models.dflash import DflashConfig, DflashDraft, save_dflash
from common.draft_models.eagle import EagleConfig, EagleDraft, save_eagle
from common.draft_models.eagle3 import Eagle3Config, Eagle3Draft, save_eagle3
from common.draft_models.glide import GlideConfig, GlideDraft, save_glide
from common.draft_models.hydra import HydraConfig, HydraDraft, save_hydra
from common.draft_models.layers import LayerShape
from common.draft_models.medusa import MedusaConfig, MedusaDraft, save_medusa
from common.draft_models.moa import MoaConfig, MoaDraft, make_lsa, save_moa
from common.draft_models.state_codec import StateCodec
from common.draft_models.tandem import TandemConfig, TandemDraft, save_tandem
from common.models.checkpoint import load_config
from common.models.families import head_size, key_width
from common.models.fingerprint import fingerprint

Network = TypeVar("Network", bound=torch.nn.Module)


def moa_config_for(
    target: Path, depths: tuple[int, ...] = (0, 1, 3), mixer: str = "attention", codec: StateCodec | None = None
) -> MoaConfig:
    """Sizes of a small `moa` draft for the target's checkpoint."""
    sizes = load_config(target)
    width = 2 * key_width(sizes)
    shape = LayerShape(sizes.hidden_size, heads=4, kv_heads=2, head_dim=8, intermediate=sizes.hidden_size)
    return MoaConfig(
        hidden=sizes.hidden_size,
        target_layers=sizes.num_hidden_layers,
        state_width=width,
        depths=depths,
        lsa=LayerShape(width, heads=4, kv_heads=2, head_dim=width // 4, intermediate=width),
        sa=shape,
        ca=shape,
        mixer=mixer,
        codec=codec,
    )


def make_moa_draft(
    directory: Path,
    target: Path,
    depths: tuple[int, ...] = (0, 1, 3),
    *,
    mixer: str = "mixture",
    codec: StateCodec | None = None,
    seed: int = 0,
) -> Path:
    """Saves a random `moa` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    config = moa_config_for(target, depths, mixer, codec)
    halves = {depth: _shaken(MoaDraft(config, depth)) for depth in depths}
    save_moa(directory, fingerprint(target), config, halves, _shaken(make_lsa(config)))
    return directory


def make_block_draft(directory: Path, target: Path, *, length: int = 4, seed: int = 0) -> Path:
    """Saves a random `block` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    trunk = tandem_config_for(target)
    config = BlockConfig(trunk, length, across=trunk.layer, correction=8)
    save_block(directory, fingerprint(target), _shaken(BlockDraft(config)), _shaken(tandem.make_fuse(trunk)))
    return directory


def make_eagle_draft(directory: Path, target: Path, *, seed: int = 0) -> Path:
    """Saves a random `eagle` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    hidden = load_config(target).hidden_size
    layer = LayerShape(hidden, heads=4, kv_heads=2, head_dim=8, intermediate=hidden)
    save_eagle(directory, fingerprint(target), _shaken(EagleDraft(EagleConfig(layer))))
    return directory


def make_eagle3_draft(
    directory: Path, target: Path, *, taps: tuple[int, ...] = (0, 1, 2), kept: int | None = None, seed: int = 0
) -> Path:
    """Saves a random `eagle3` draft for the target's checkpoint; returns `directory`. `kept`: every so manyth token has
    a row in its head, None for all."""
    torch.manual_seed(seed)
    sizes = load_config(target)
    hidden, vocabulary = sizes.hidden_size, sizes.vocab_size
    tokens = None if kept is None else torch.arange(0, vocabulary, kept)
    layer = LayerShape(hidden, heads=4, kv_heads=2, head_dim=8, intermediate=hidden, input_norm=False)
    draft = Eagle3Draft(Eagle3Config(layer, vocabulary, vocabulary if tokens is None else len(tokens)))
    fuse = torch.nn.Linear(3 * hidden, hidden, bias=False)
    save_eagle3(directory, fingerprint(target), _shaken(draft), _shaken(fuse), taps, tokens)
    return directory


def make_medusa_draft(directory: Path, target: Path, *, seed: int = 0) -> Path:
    """Saves random `medusa` heads for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    sizes = load_config(target)
    accuracies = ((0.6, 0.2), (0.5, 0.1), (0.4, 0.1))
    draft = _shaken(MedusaDraft(MedusaConfig(sizes.hidden_size, sizes.vocab_size, accuracies)))
    save_medusa(directory, fingerprint(target), draft, accuracies)
    return directory


def make_hydra_draft(directory: Path, target: Path, *, plus: bool = True, seed: int = 0) -> Path:
    """Saves random `hydra` heads, by default of Hydra++, for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    sizes = load_config(target)
    layer = LayerShape(sizes.hidden_size, heads=4, kv_heads=2, head_dim=8, intermediate=sizes.hidden_size)
    config = HydraConfig(sizes.hidden_size, sizes.vocab_size, heads=3, blocks=2, layer=layer if plus else None)
    save_hydra(directory, fingerprint(target), _shaken(HydraDraft(config)))
    return directory


def make_clover_draft(directory: Path, target: Path, *, seed: int = 0) -> Path:
    """Saves a random `clover` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    sizes = load_config(target)
    layer = LayerShape(sizes.hidden_size, heads=4, kv_heads=2, head_dim=8, intermediate=sizes.hidden_size)
    config = CloverConfig(sizes.hidden_size, sizes.vocab_size, heads=3, layer=layer)
    save_clover(directory, fingerprint(target), _shaken(CloverDraft(config)))
    return directory


def make_glide_draft(directory: Path, target: Path, *, seed: int = 0) -> Path:
    """Saves a random `glide` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    sizes = load_config(target)
    dim = head_size(sizes)
    layer = LayerShape(sizes.hidden_size, 4, key_width(sizes) // dim, dim, intermediate=sizes.hidden_size)
    save_glide(directory, fingerprint(target), _shaken(GlideDraft(GlideConfig(layer))))
    return directory


def make_tandem_draft(directory: Path, target: Path, *, seed: int = 0) -> Path:
    """Saves a random `tandem` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    config = tandem_config_for(target)
    save_tandem(directory, fingerprint(target), _shaken(TandemDraft(config)), _shaken(tandem.make_fuse(config)))
    return directory


def tandem_config_for(target: Path) -> TandemConfig:
    hidden = load_config(target).hidden_size
    layer = LayerShape(hidden, heads=4, kv_heads=2, head_dim=8, intermediate=hidden)
    return TandemConfig(layer, layers=2, taps=(1, 3), state_width=hidden // 2)


def make_dflash_draft(directory: Path, target: Path, *, seed: int = 0) -> Path:
    """Saves a random `dflash` draft for the target's checkpoint; returns `directory`."""
    torch.manual_seed(seed)
    sizes = load_config(target)
    layer = LayerShape(sizes.hidden_size, 4, 2, 8, intermediate=sizes.hidden_size, head_norms=True)
    config = DflashConfig(layer, 2, length=5, mask=0, taps=(1, 3), vocabulary=sizes.vocab_size)
    save_dflash(directory, fingerprint(target), _shaken(DflashDraft(config)), _shaken(dflash.make_fuse(config)))
    return directory


def _shaken(network: Network) -> Network:
    """No parameter may stay at the zeros and ones with which training begins."""
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn(weight.shape) * 0.1)
    return network
