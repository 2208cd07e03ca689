"""A cache of bundles' tokenizers as transformers made them, so that the next start needs no transformers.

One file for each tokenizer and each version of the libraries: a checksum, then the tokenizer. A file that cannot be
read is made again.
"""

from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from client.cache.checksummed import read_checksummed, write_checksummed
from common.bundle import TOKENIZER_FOLDER, BundleManifest
from common.models.tokenizer import PlainTokenizer, Tokenizer, plain_tokenizer
from common.transformers_import import IMPORTING

_FOLDER = "tokenizers"


def tokenizer_of(cache: Path, manifest: BundleManifest, bundle: Path) -> Tokenizer:
    """Raises CheckpointError if the bundle's tokenizer cannot be used."""
    file = kept_file(cache, manifest)
    kept = read_kept(file)
    if kept is not None:
        return kept
    with IMPORTING:
        from common.models.checkpoint import load_tokenizer

    full = load_tokenizer(bundle / TOKENIZER_FOLDER)
    plain = plain_tokenizer(full)
    if plain is None:
        return full
    write_checksummed(file, plain.to_bytes())
    return plain


def kept_file(cache: Path, manifest: BundleManifest) -> Path:
    """The file of the bundle's tokenizer, whether it exists or not."""
    return cache / _FOLDER / _name(manifest)


def _name(manifest: BundleManifest) -> str:
    folder = f"{TOKENIZER_FOLDER}/"
    files = sorted(f"{file.path} {file.sha256}" for file in manifest.files if file.path.startswith(folder))
    made_of = (*files, version("transformers"), version("tokenizers"))
    return sha256("\n".join(made_of).encode()).hexdigest()[:32]


def read_kept(file: Path) -> PlainTokenizer | None:
    """None if nothing readable is kept."""
    kept = read_checksummed(file)
    try:
        return None if kept is None else PlainTokenizer.from_bytes(kept)
    # The checksum is right, so this program wrote the file, at worst with other versions of the libraries.
    except Exception:
        return None
