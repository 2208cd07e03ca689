"""Descriptions of servers from when they were last reached, so that a client can begin without them.

One file for each address and each name by which a target was asked for, beside the bundles: a checksum, and behind it
the description. Knows no link and no bundles.
"""

from hashlib import sha256
from pathlib import Path

from client.cache.checksummed import read_checksummed, write_checksummed
from common.protocol.errors import PeerError
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.convert import description_bytes, description_from_bytes
from common.rpc.description import ServerDescription

_FOLDER = "servers"


def remember(cache: Path, address: str, description: ServerDescription, model: str = "") -> None:
    """`model` is the target's name if it was asked for by that. Does nothing if the cache cannot be written."""
    write_checksummed(_file(cache, address, model), description_bytes(description))


def recall(cache: Path, address: str, model: str = "") -> ServerDescription | None:
    """None if nothing readable was kept, or only a description of another protocol version. A target that is asked for
    by name may be known as the server's first."""
    kept = _read(_file(cache, address, model))
    if kept is not None or not model:
        return kept
    first = _read(_file(cache, address, ""))
    return first if first is not None and first.model == model else None


def _read(file: Path) -> ServerDescription | None:
    kept = read_checksummed(file)
    try:
        description = None if kept is None else description_from_bytes(kept)
    except PeerError:
        return None
    is_spoken = description is not None and description.version == PROTOCOL_VERSION
    return description if is_spoken else None


def _file(cache: Path, address: str, model: str) -> Path:
    asked = f"{address} {model}" if model else address
    return cache / _FOLDER / sha256(asked.encode()).hexdigest()[:32]
