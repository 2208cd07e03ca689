"""What a server says of itself when it is asked, as frozen dataclasses, and nothing about how it is encoded."""

from dataclasses import dataclass

from common.address import Address
from common.bundle import BundleManifest


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

    @property
    def served(self) -> tuple[str, ...]:
        """The names of all targets of the server, its first one first."""
        return self.models or (self.model,)


@dataclass(frozen=True, slots=True)
class FileRequest:
    """One file of a bundle, from `offset` bytes on."""

    bundle: str  # id
    path: str
    offset: int
