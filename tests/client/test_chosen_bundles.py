"""Which bundles a choice of drafts needs, and which drafts are refused because they cannot draft together."""

from dataclasses import replace

import pytest

from client.chosen_bundles import check_together, each_bundle
from client.drafting.draft_loader import DraftChoice
from common.bundle import make_manifest
from common.draft_kinds import DRAFT_KINDS, STATELESS_KINDS
from common.protocol.errors import MisuseError
from common.rpc.description import ServerDescription

OFFERING = replace(
    ServerDescription(1, "0.1", "model", "f", 50, 400, 64, (0,), ("greedy",), (), ()),
    bundles=tuple(make_manifest(kind, kind, "f", []) for kind in DRAFT_KINDS),
)
"""A server with a draft of each kind."""


@pytest.mark.parametrize(
    ("draft", "says"),
    [
        ("block+eagle3", "'block' and 'eagle3' cannot draft together, for each needs draft state that is made for it"),
        ("block+moa", "'block' and 'moa' cannot draft together, for each needs draft state that is made for it alone"),
        ("moa+hydra+eagle", "'moa' and 'hydra' cannot draft together"),
        (
            "moa+other",
            "'moa' and 'other' cannot draft together, for the server offers no 'other' for the target 'model'",
        ),
        (
            "other+moa",
            "'moa' and 'other' cannot draft together, for the server offers no 'other' for the target 'model'",
        ),
    ],
)
def test_drafts_that_cannot_share_a_tree_are_refused_before_anything_is_fetched(draft, says):
    with pytest.raises(MisuseError, match=says):
        check_together(OFFERING, DraftChoice(draft))


@pytest.mark.parametrize("draft", [None, "other", "moa+lookup", "moa+independent", "hydra+eagle+lookup"])
def test_drafts_that_share_draft_state_or_need_none_can_draft_together(draft):
    check_together(OFFERING, DraftChoice(draft))


@pytest.mark.parametrize(
    ("draft", "bundles"),
    [
        (None, [None]),
        ("hydra+lookup+eagle", ["hydra+lookup+eagle", "eagle"]),
        ("auto", [each.draft for each in OFFERING.bundles if each.kind not in STATELESS_KINDS]),
    ],
)
def test_each_draft_with_weights_has_a_bundle_that_is_fetched(draft, bundles):
    chosen = each_bundle(OFFERING, DraftChoice(draft))
    assert [each.draft for each in chosen] == bundles
    names = [each.bundle for each in chosen]
    assert len(set(names)) == len(names)


def test_what_stands_in_has_a_bundle_of_its_own():
    choice = DraftChoice("hydra+lookup", stand_in="moa")
    assert [each.bundle for each in each_bundle(OFFERING, choice)] == ["hydra", "moa"]
