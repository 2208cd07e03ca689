"""Everything that this server offers of one target, made from the operator's options before the first client comes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Self

from transformers import PreTrainedTokenizerBase

from common.bundle import TargetCard
from common.cache import cache_directory
from common.draft_kinds import DraftParts
from common.draft_models.directory import read_draft_kind
from common.models.checkpoint import load_config, load_tokenizer
from common.models.shipped import shipped_family
from common.models.source import checkpoint_directory
from common.protocol.idle import IDLE_POLICIES
from common.protocol.messages import PROTOCOL_VERSION
from common.protocol.rules import RULES
from common.protocol.terms import StateKinds, Terms, no_state
from common.rpc.description import ServerDescription
from common.sampling.grammar import Grammars
from server.models.bundles import (
    OfferedBundle,
    check_names_differ,
    checkpoint_name,
    offer_causal_lm,
    offer_lookup,
    offer_with_tail,
)
from server.models.client_halves import keep_client_half
from server.models.draft_models import STATELESS_MODELS, DraftModel, needed_taps, needs_hidden, read_draft_model
from server.models.quantised_bundles import quantise_bundles
from server.models.tails import keep_tail
from server.models.target_card import read_card
from server.options import SessionOptions


@dataclass(frozen=True, slots=True)
class Offer:
    """A target's files, what a client must know of it, and the bundles made for it."""

    directory: Path
    card: TargetCard
    tokenizer: PreTrainedTokenizerBase
    drafts: tuple[OfferedBundle, ...]
    draft_models: tuple[DraftModel, ...]  # the same, as they run beside the target, then those without weights
    lookup: OfferedBundle
    quantised: tuple[OfferedBundle, ...] = ()  # of the drafts

    @property
    def bundles(self) -> tuple[OfferedBundle, ...]:
        """Those with weights as they are."""
        return (*self.drafts, self.lookup)

    def with_quantised(self) -> Self:
        """Quantises the drafts for clients that want them so, unless an earlier run did."""
        return replace(self, quantised=quantise_bundles(self.drafts, self.card, cache_directory()))

    @property
    def needs_hidden(self) -> bool:
        """Whether a draft needs the target's last hidden states."""
        return needs_hidden(self.draft_models)

    @property
    def taps(self) -> tuple[int, ...]:
        """The target's layers whose hidden states a draft needs."""
        return needed_taps(self.draft_models, load_config(self.directory).num_hidden_layers)

    def terms(self, options: SessionOptions, capacity: int, state_kinds: StateKinds = no_state) -> Terms:
        """What sessions are offered by a server whose cache holds `capacity` tokens."""
        end_tokens = frozenset(self.card.end_tokens)
        return Terms(
            fingerprint=self.card.fingerprint,
            vocab_size=self.card.vocab_size,
            context=min(self.card.context, capacity),
            end_tokens=end_tokens,
            detokenise=lambda tokens: str(self.tokenizer.decode(list(tokens))),
            constrain=Grammars(self.tokenizer, self.card.vocab_size, end_tokens),
            idle=options.idle,
            run_ahead=options.run_ahead,
            state_kinds=state_kinds,
            server_drafts=True,
        )


def make_offer(target: str, drafts: tuple[str, ...], name: str = "") -> Offer:
    """Reads everything but the target's weights, of which it may copy the last layers. A shipped family brings its
    drafts. An empty `name` is the checkpoint's own.

    Raises MisuseError where something is missing or does not fit together.
    """
    family = shipped_family(target)
    name = name or checkpoint_name(target)
    if family is not None:
        target, drafts = str(family.target), drafts or tuple(map(str, family.drafts))
    directory = checkpoint_directory(target, with_weights=True)
    tokenizer = load_tokenizer(directory)
    card = read_card(name, directory, tokenizer)
    bundles, models = [], []
    for draft in drafts:
        where = checkpoint_directory(draft, with_weights=True)
        kind = read_draft_kind(where)
        if kind.parts is DraftParts.CAUSAL_LM:
            bundles.append(offer_causal_lm(directory, card, tokenizer, draft, kind))
            models.append(DraftModel(checkpoint_name(draft), kind, where))
            continue
        model = read_draft_model(checkpoint_name(draft), kind, where, directory, card.fingerprint)
        tail = keep_tail(directory, card.fingerprint, max(model.depths), cache_directory())
        models.append(replace(model, tail=tail))
        client_half = keep_client_half(where, tail, cache_directory())
        bundles.append(offer_with_tail(directory, card, model, client_half, tail))
    lookup = offer_lookup(directory, card)
    check_names_differ((*bundles, lookup))
    return Offer(directory, card, tokenizer, tuple(bundles), (*models, *STATELESS_MODELS), lookup)


def describe(offer: Offer, terms: Terms, models: Sequence[str], numerics: str) -> ServerDescription:
    """`models` are the names of all targets of this server; passes are computed in `numerics`."""
    return ServerDescription(
        version=PROTOCOL_VERSION,
        release=version("outrider"),
        model=offer.card.model,
        fingerprint=offer.card.fingerprint,
        vocab_size=offer.card.vocab_size,
        context=terms.context,
        max_nodes=terms.max_nodes,
        end_tokens=offer.card.end_tokens,
        rules=tuple(RULES),
        idle_policies=tuple(IDLE_POLICIES),
        bundles=tuple(bundle.manifest for bundle in offer.bundles),
        quantised=tuple(bundle.manifest for bundle in offer.quantised),
        models=tuple(models),
        logprobs=True,
        numerics=numerics,
    )
