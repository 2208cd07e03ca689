"""What servers said of themselves when they were last asked, so that a client can begin without them.

One file for each address, beside the bundles. Knows no link and no bundles.
"""

from hashlib import sha256
from pathlib import Path

from common.protocol.errors import PeerError
from common.rpc.convert import description_bytes, description_from_bytes
from common.rpc.description import ServerDescription

_FOLDER = "servers"


def remember(cache: Path, address: str, description: ServerDescription) -> None:
    """What cannot be kept is asked again another time."""
    file = _file(cache, address)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_bytes(description_bytes(description))
        part.replace(file)
    except OSError:
        return


def recall(cache: Path, address: str) -> ServerDescription | None:
    """None where nothing that can be read was kept."""
    try:
        return description_from_bytes(_file(cache, address).read_bytes())
    except (OSError, PeerError):
        return None


def _file(cache: Path, address: str) -> Path:
    return cache / _FOLDER / sha256(address.encode()).hexdigest()[:32]
