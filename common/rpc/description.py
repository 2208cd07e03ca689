"""What a server says of itself when it is asked, as frozen dataclasses, and nothing about how it is encoded."""

from dataclasses import dataclass

from common.bundle import BundleManifest


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What this server decides with, and what it hands out."""

    version: int  # of the protocol
    release: str  # of the server's software
    model: str  # a name for people
    fingerprint: str  # of the target
    vocab_size: int
    context: int  # tokens of the longest sequence
    max_nodes: int  # live nodes of one tree
    end_tokens: tuple[int, ...]
    rules: tuple[str, ...]
    idle_policies: tuple[str, ...]
    bundles: tuple[BundleManifest, ...]
    quantised: tuple[BundleManifest, ...] = ()  # of the same drafts, with weights in other modes


@dataclass(frozen=True, slots=True)
class FileRequest:
    """One file of a bundle, from `offset` bytes on."""

    bundle: str  # id
    path: str
    offset: int
