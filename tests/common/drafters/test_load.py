"""Drafters are loaded from a bundle's directory, and what does not fit is refused in one sentence."""

import errno
import json

import pytest
import torch
from safetensors.torch import save_file

from common.bundle import TAIL_FOLDER
from common.codec import encode
from common.draft_models.eagle import EagleConfig, EagleDraft, save_eagle
from common.draft_models.layers import LayerShape
from common.draft_models.medusa import MedusaConfig, MedusaDraft, save_medusa
from common.draft_models.tail import write_tail
from common.drafters.best_first import Expansion
from common.drafters.load import DrafterConfig, check_shared_state, load_drafter
from common.models.errors import CheckpointError
from common.protocol.errors import MisuseError
from common.protocol.messages import State, StateRequest
from common.protocol.views import TreeView
from common.weight_only.files import quantise_directory
from netem.experiments.family_checkpoints import FAMILIES as FAMILIES_BY_NAME
from netem.experiments.family_checkpoints import VOCABULARY, make_family_checkpoint
from tests.families import FAMILIES, make_checkpoint

TOKENS = (11, 45, 7, 201)


def eagle_of(hidden=48):
    torch.manual_seed(0)
    return EagleDraft(EagleConfig(LayerShape(hidden, 6, 2, hidden // 6, 64, input_norm=False)))


def save_published(directory, draft):
    """`draft` in the layout of EAGLE's authors."""
    names = {"post_norm": "post_attention_layernorm"}
    names |= {f"{each}_proj": f"self_attn.{each}_proj" for each in "qkvo"}
    names |= {f"{each}_proj": f"mlp.{each}_proj" for each in ("gate", "up", "down")}
    tensors = {}
    for name, tensor in draft.state_dict().items():
        module, last = name.removeprefix("layer.").rsplit(".", 1)
        tensors[f"layers.0.{names[module]}.{last}" if module in names else name] = tensor
    save_file(tensors | {"embed_tokens.weight": torch.zeros(300, 48)}, directory / "model.safetensors")
    config = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 64}
    (directory / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-5}))


def site(folder, layers=0):
    request = StateRequest("mine", layers)
    return DrafterConfig(folder, "cpu", "float64", 64, 300, request, Expansion(least_probability=1e-9))


def bundle(tmp_path, family="llama"):
    folder = tmp_path / "bundle"
    write_tail(make_checkpoint(tmp_path / "target", family), 0, folder / TAIL_FOLDER)
    return folder


def proposals(drafter):
    values = torch.randn(3, 48, generator=torch.Generator().manual_seed(1))
    state = State(0, 0, 3, "hidden", "int8", (3, 48), encode(values, "int8"))
    return list(drafter.draft(TreeView(TOKENS, ()), [state]))


def test_two_drafts_that_read_the_same_draft_state_share_a_tree_and_one_request(tmp_path):
    folder = bundle(tmp_path)
    save_published(folder, eagle_of())
    alone, merged = (load_drafter("eagle", site(folder), beside) for beside in ((), [("eagle", site(folder))]))
    assert merged.state == alone.state == StateRequest("mine")
    assert proposals(merged) == proposals(alone), "of two that are equal the tree is that of one"


@pytest.mark.parametrize(
    "kinds", [("eagle", "eagle3"), ("moa", "moa"), ("block", "moa"), ("eagle3", "lookup", "dflash")]
)
def test_drafts_whose_draft_state_is_made_for_each_alone_are_refused_by_name(kinds):
    asked = [(kind, StateRequest(f"{kind} {index}")) for index, kind in enumerate(kinds)]
    with pytest.raises(MisuseError, match=f"'{kinds[0]} 0' and '{kinds[-1]} {len(kinds) - 1}' cannot draft together"):
        check_shared_state(asked)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_eagle_draft_of_ours_and_a_published_one_draft_alike(tmp_path, family):
    folder = bundle(tmp_path, family)
    save_eagle(folder, "f" * 64, eagle_of())
    ours = load_drafter("eagle", site(folder))
    assert ours.state == StateRequest("mine")
    found = proposals(ours)
    assert found
    save_published(folder, eagle_of())
    assert proposals(load_drafter("eagle", site(folder))) == found


def test_a_trimmed_eagle_draft_proposes_kept_tokens(tmp_path):
    folder = bundle(tmp_path)
    save_eagle(folder, "f" * 64, eagle_of(), torch.tensor([4, 8, 15]))
    assert {each.token for each in proposals(load_drafter("eagle", site(folder)))} == {4, 8, 15}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shared", [False, True])
def test_medusa_heads_are_loaded_with_their_tree(tmp_path, family, shared):
    folder, table = bundle(tmp_path, family), ((0.5, 0.3), (0.4, 0.0))
    draft = MedusaDraft(MedusaConfig(48, 300, table, shared_head=shared))
    save_medusa(folder, "f" * 64, draft, table)
    drafter = load_drafter("medusa", site(folder))
    assert drafter.state == StateRequest("mine")
    assert len(proposals(drafter)) == 4


def test_a_draft_of_another_width_is_refused(tmp_path):
    folder = bundle(tmp_path)
    save_eagle(folder, "f" * 64, eagle_of(24))
    with pytest.raises(CheckpointError, match="hidden states of 24 numbers, but the target's have 48"):
        load_drafter("eagle", site(folder))
    save_medusa(folder, "f" * 64, MedusaDraft(MedusaConfig(24, 300, ((0.5,),))), ((0.5,),))
    with pytest.raises(CheckpointError, match="hidden states of 24 numbers"):
        load_drafter("medusa", site(folder))


def test_drafts_that_run_no_target_layer_are_not_asked_to(tmp_path):
    folder = bundle(tmp_path)
    save_eagle(folder, "f" * 64, eagle_of())
    with pytest.raises(MisuseError, match="the draft model 'mine' runs no layer of the target, not 1; choose 0"):
        load_drafter("eagle", site(folder, layers=1))


def test_unknown_kinds_are_refused_by_name(tmp_path):
    with pytest.raises(MisuseError, match=r"no drafter 'crystal'.*only moa, .*lookup"):
        load_drafter("crystal", site(tmp_path))


@pytest.mark.parametrize("wrong", [-3, "wide", None, [48], 1 << 62, {}])
def test_a_configuration_that_says_what_cannot_be_is_one_sentence(tmp_path, wrong):
    """The file comes with a server's bundle, so it is not trusted."""
    folder = bundle(tmp_path)
    save_eagle(folder, "f" * 64, eagle_of())
    config = json.loads((folder / "config.json").read_text())
    for key in ("hidden", "heads", "kv_heads", "head_dim", "intermediate"):
        layer = config["layer"] | {key: wrong}
        (folder / "config.json").write_text(json.dumps(config | {"layer": layer}))
        with pytest.raises(CheckpointError):
            load_drafter("eagle", site(folder))


def test_a_causal_draft_whose_passes_do_not_agree_is_refused(tmp_path, monkeypatch):
    config = DrafterConfig(
        make_family_checkpoint(tmp_path / "draft", FAMILIES_BY_NAME["cohere"]),
        "cpu",
        "float32",
        64,
        VOCABULARY,
        StateRequest("draft"),
    )
    assert load_drafter("independent", config).kind == "independent"
    monkeypatch.setattr("common.models.packed.head_of", lambda model: model.lm_head)
    with pytest.raises(CheckpointError, match="packed passes do not agree with the model type 'cohere'"):
        load_drafter("independent", config)


def load_quantised_cohere(tmp_path):
    """A draft of a family that only transformers loads."""
    make_family_checkpoint(tmp_path / "draft", FAMILIES_BY_NAME["cohere"])
    quantise_directory(tmp_path / "draft", "int8", tmp_path / "few")
    config = DrafterConfig(tmp_path / "few", "cpu", "float32", 64, VOCABULARY, StateRequest("draft"))
    return load_drafter("independent", config)


def test_a_plain_copy_lies_beside_its_bundle_while_it_is_read(tmp_path, monkeypatch):
    source, out = where_a_plain_copy_lies(tmp_path, monkeypatch)
    assert source == out.parent == tmp_path / "few"
    assert not out.exists()


def test_a_plain_copy_is_loaded_and_gone_afterwards_with_what_a_killed_process_left(tmp_path, monkeypatch):
    _, left = where_a_plain_copy_lies(tmp_path, monkeypatch)
    left.mkdir()
    assert load_quantised_cohere(tmp_path).kind == "independent"
    assert not [file for file in (tmp_path / "few").iterdir() if file.is_dir()]


def where_a_plain_copy_lies(tmp_path, monkeypatch):
    used = []
    with monkeypatch.context() as patched:
        made = "common.weight_only.files.dequantise_directory"
        patched.setattr(made, lambda source, out: used.append((source, out)))
        with pytest.raises(CheckpointError):  # of an empty directory
            load_quantised_cohere(tmp_path)
    (found,) = used
    return found


def test_no_room_for_a_plain_copy_is_told(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("common.weight_only.files.dequantise_directory", refuse)
    with pytest.raises(CheckpointError, match="No space left on device; make room, or leave --weights out"):
        load_quantised_cohere(tmp_path)
