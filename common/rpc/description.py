"""What a server says of itself when it is asked, as frozen dataclasses, and nothing about how it is encoded."""

from collections.abc import Mapping
from dataclasses import dataclass

from common.address import Address
from common.bundle import BundleManifest
from common.protocol.plain import plain

_SHOWN = 12  # characters of an identity, for a person


@dataclass(frozen=True, slots=True)
class TargetIdentity:
    """By what replicas know that a session of one can go on at another."""

    model: str
    fingerprint: str
    drafts: Mapping[str, str]  # the id of the bundle of each draft model
    context: int = 0  # tokens of the longest sequence; 0 where a release does not say it
    numerics: str = ""  # in what passes are computed; empty where a release does not say it

    def difference(self, other: "TargetIdentity") -> str:
        """What keeps a session from going on at the other, as a half sentence; empty if nothing does."""
        if self.fingerprint != other.fingerprint:
            return f"the target {self} is not {other}"
        for draft in (*self.drafts, *other.drafts):
            if draft not in self.drafts or draft not in other.drafts:
                return f"only one of them has the draft model '{plain(draft)}'"
            ours, theirs = (drafts[draft][:_SHOWN] for drafts in (self.drafts, other.drafts))
            if self.drafts[draft] != other.drafts[draft]:
                return f"their draft models '{plain(draft)}' differ ({plain(ours)} and {plain(theirs)})"
        if self.context != other.context and self.context and other.context:
            return f"one takes {self.context} tokens in a sequence and the other {other.context}"
        if self.numerics != other.numerics and self.numerics and other.numerics:
            return f"one computes in {plain(self.numerics)} and the other in {plain(other.numerics)}"
        return ""

    def __str__(self) -> str:
        return f"{plain(self.model)} ({plain(self.fingerprint[:_SHOWN])})"


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What this server decides with, and what it hands out, for one of its targets."""

    version: int  # of the protocol
    release: str  # of the server's software
    model: str  # the target's name, by which clients choose it
    fingerprint: str  # of the target
    vocab_size: int
    context: int  # tokens of the longest sequence
    max_nodes: int  # live nodes of one tree
    end_tokens: tuple[int, ...]
    rules: tuple[str, ...]
    idle_policies: tuple[str, ...]
    bundles: tuple[BundleManifest, ...]
    quantised: tuple[BundleManifest, ...] = ()  # of the same drafts, with weights in other modes
    models: tuple[str, ...] = ()  # all targets of the server, its first one first; empty where a release has but one
    load: float = 0.0  # sessions with a stream, of all targets, in parts of those that the server takes
    replicas: tuple[Address, ...] = ()  # of the server's fleet, itself included; empty where it is alone
    logprobs: bool = False  # whether it gives log-probabilities of committed tokens
    # The dtype of passes, that to which weights are quantised as they are loaded, and `fast` or `batch-invariant` where
    # that is not the default of the dtype.
    numerics: str = ""

    @property
    def served(self) -> tuple[str, ...]:
        """The names of all targets of the server, its first one first."""
        return self.models or (self.model,)

    @property
    def identity(self) -> TargetIdentity:
        drafts = {each.draft: each.id for each in self.bundles}
        return TargetIdentity(self.model, self.fingerprint, drafts, self.context, self.numerics)


@dataclass(frozen=True, slots=True)
class FileRequest:
    """One file of a bundle, from `offset` bytes on."""

    bundle: str  # id
    path: str
    offset: int
