"""The targets of one server: their names, and which draft models belong to which."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from server.models.offer import Offer
from server.models.offers import make_offers
from server.options import ChosenTarget, TargetOptions
from tests.drafts import make_moa_draft
from tests.families import make_checkpoint

Checkpoint = Callable[[str], Path]


def offers(targets: dict[str, Path | str], *drafts: Path) -> list[Offer]:
    requests = tuple(ChosenTarget(str(checkpoint), 100, name) for name, checkpoint in targets.items())
    return make_offers(TargetOptions(requests, tuple(map(str, drafts)), "cpu", "float64", 1))


def drafts_of(offer: Offer) -> list[str]:
    return [bundle.manifest.draft for bundle in offer.bundles]


def test_a_draft_belongs_to_every_target_that_it_fits(checkpoint: Checkpoint, draft: Path, tmp_path: Path) -> None:
    llama, qwen3 = checkpoint("llama"), checkpoint("qwen3")
    moa = make_moa_draft(tmp_path / "moa", qwen3)
    one, two = offers({"one": llama, "two": qwen3}, moa, draft)
    assert (one.card.model, two.card.model) == ("one", "two")
    assert drafts_of(one) == ["small", "lookup"]
    assert drafts_of(two) == ["moa", "small", "lookup"]


def test_a_draft_that_fits_none_is_refused_with_why_each_does_not(
    checkpoint: Checkpoint, alien_draft: Path, foreign_draft: Path
) -> None:
    targets: dict[str, Path | str] = {"one": checkpoint("llama"), "two": checkpoint("mistral")}
    with pytest.raises(MisuseError, match=r"fits none of the targets; for 'one': .*another target.*; 'two': .*another"):
        offers(targets, alien_draft)
    with pytest.raises(MisuseError, match=r"none of the targets; for 'one': .*another tokenizer.*; 'two': .*another"):
        offers(targets, foreign_draft)


def test_a_shipped_family_brings_its_drafts_unless_one_that_was_named_fits(checkpoint: Checkpoint, draft: Path) -> None:
    shipped, tiny = offers({"demo": "demo", "tiny": checkpoint("llama")}, draft)
    assert drafts_of(shipped)[0] == "moa"
    assert drafts_of(tiny) == ["small", "lookup"]


def test_shipped_drafts_are_chosen_by_name(checkpoint: Checkpoint) -> None:
    named = TargetOptions((ChosenTarget("demo", 100),), ("independent", "moa"), "cpu", "float64", 1)
    (alone,) = make_offers(named)
    beside, _ = make_offers(replace(named, targets=(*named.targets, ChosenTarget(str(checkpoint("llama")), 100))))
    assert drafts_of(alone) == drafts_of(beside) == ["independent", "moa", "lookup"]


def test_two_targets_of_one_name_are_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    llama, qwen3 = checkpoint("llama"), checkpoint("qwen3")
    twin = shutil.copytree(qwen3, tmp_path / llama.name)
    with pytest.raises(MisuseError, match=f"two targets are named '{llama.name}'; name one of them with --target"):
        make_offers(TargetOptions(tuple(ChosenTarget(str(each), 9) for each in (llama, twin)), (), "cpu", "f", 1))


def test_one_checkpoint_is_not_served_twice(checkpoint: Checkpoint) -> None:
    llama = checkpoint("llama")
    with pytest.raises(
        MisuseError, match="the targets 'one' and 'two' have the same weights and tokens; leave one out"
    ):
        offers({"one": llama, "two": llama})


def test_a_directory_that_cannot_be_typed_needs_a_name(tmp_path: Path) -> None:
    odd = make_checkpoint(tmp_path / "a\x1b[31mb", "llama", layers=1)
    with pytest.raises(MisuseError, match=r"no client could type the name 'a \[31mb'"):
        offers({"": odd})
    (named,) = offers({"odd": odd})
    assert named.card.model == "odd"


def test_more_than_clients_accept_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="65 targets are more than the 64 that clients accept"):
        offers({f"target-{number}": tmp_path for number in range(65)})
    with pytest.raises(MisuseError, match="64 draft models are more than the 63 that clients accept"):
        offers({"one": tmp_path}, *[tmp_path / str(number) for number in range(64)])
