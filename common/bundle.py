"""What a bundle is: the directory that a client needs for one draft of one target, and its `bundle.json`.

What may live here: the manifest, its identity, writing, reading and verifying it. It may not know how files travel,
where they are cached, or how models are loaded.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from common.atomic import atomic_file
from common.protocol.errors import MisuseError
from common.weight_only.modes import AS_IS

MANIFEST_FILE = "bundle.json"
FORMAT = 1

TOKENIZER_FOLDER = "tokenizer"
"""The target's tokenizer in every bundle; the draft's own files, if it has any, lie beside it."""

TAIL_FOLDER = "tail"
"""The target's embedding, last layers, final norm and head, in the bundles of drafts that run on them."""


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of a bundle; `path` is relative with forward slashes, `size` in bytes, `sha256` in lower-case hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """A bundle's name, the kind of its drafter, its files in path order, and the mode of its weights. Equal ids mean
    equal bundles."""

    id: str
    draft: str
    kind: str
    files: tuple[BundleFile, ...]
    weights: str = AS_IS


@dataclass(frozen=True, slots=True)
class TargetCard:
    """What a client must know of the target before it drafts for it."""

    model: str  # a name for people
    fingerprint: str
    vocab_size: int
    context: int  # tokens of the longest sequence
    end_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The content of `bundle.json`."""

    manifest: BundleManifest
    target: TargetCard


def make_manifest(
    draft: str, kind: str, fingerprint: str, files: Iterable[BundleFile], weights: str = AS_IS
) -> BundleManifest:
    """The manifest of a draft for the target with this fingerprint; its id is the sha256 of its content."""
    ordered = tuple(sorted(files, key=lambda file: file.path))
    content: list[object] = [draft, kind, fingerprint, [[file.path, file.size, file.sha256] for file in ordered]]
    if weights != AS_IS:  # so that ids of other bundles stay what they were
        content.append(weights)
    identity = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    return BundleManifest(identity, draft, kind, ordered, weights)


def describe_file(path: str, source: Path) -> BundleFile:
    """The entry of a bundle's file whose bytes lie at `source`. Raises MisuseError where it cannot be read."""
    try:
        with source.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return BundleFile(path, source.stat().st_size, digest)
    except OSError as error:
        raise MisuseError(f"{source} cannot be read: {error.strerror}") from error


def stays_inside(path: str) -> bool:
    """Whether a file of this name would lie inside the bundle's directory, on any operating system."""
    parts = PurePosixPath(path).parts
    plain = bool(parts) and not path.startswith("/") and not set(path) & set("\\:\0")
    return plain and "/".join(parts) == path and ".." not in parts and path != MANIFEST_FILE


def write_bundle_file(directory: Path, bundle: Bundle) -> None:
    """Writes `bundle.json`, atomically. It is written last, so that its presence means that every file is there."""
    content = {"format": FORMAT, "target": asdict(bundle.target), **asdict(bundle.manifest)}
    with atomic_file(directory / MANIFEST_FILE) as file:
        file.write(json.dumps(content, indent=2).encode() + b"\n")


def read_bundle_file(directory: Path) -> Bundle | None:
    """What `bundle.json` says; None where there is none, or none that says it."""
    try:
        content = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
        target = content["target"]
        card = TargetCard(**{**target, "end_tokens": tuple(target["end_tokens"])})
        files = [BundleFile(**file) for file in content["files"]]
        weights = content.get("weights", AS_IS)
        manifest = make_manifest(content["draft"], content["kind"], card.fingerprint, files, weights)
        is_ours = (content["format"], content["id"]) == (FORMAT, manifest.id)
    # RecursionError is what JSON raises that is nested too deeply.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Bundle(manifest, card) if is_ours else None


def first_damaged(directory: Path, manifest: BundleManifest) -> str | None:
    """The path of the first file that is absent or differs from the manifest; None where the bundle is whole."""
    for file in manifest.files:
        source = directory / file.path
        if not source.is_file() or source.stat().st_size != file.size or describe_file(file.path, source) != file:
            return file.path
    return None
