"""Files of the cache that begin with a checksum, so that a damaged one counts as absent, whatever it holds."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from common.atomic import atomic_file

_DIGEST_BYTES = sha256().digest_size


def read_checksummed(file: Path) -> bytes | None:
    """None if nothing readable was kept."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    digest, kept = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return kept if sha256(kept).digest() == digest else None


def write_checksummed(file: Path, kept: bytes) -> None:
    """Does nothing if the cache cannot be written."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file) as written:
            written.write(sha256(kept).digest() + kept)
