"""The bundles that this server offers: which files belong to each, read from where they lie.

It may not know gRPC, sessions or how a target runs.
"""

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from common.atomic import removed_unless_whole
from common.bundle import (
    TAIL_FOLDER,
    TOKENIZER_FOLDER,
    Bundle,
    BundleManifest,
    TargetCard,
    describe_file,
    make_manifest,
    write_bundle_file,
)
from common.draft_kinds import LOOKUP, STATELESS_KINDS, DraftKind
from common.models.checkpoint import load_config, load_tokenizer
from common.models.families import context_of, depends_on_longest, has_position_table
from common.models.fingerprint import describe_tensors
from common.models.source import CONFIG, SHARD_INDEX, WEIGHTS, checkpoint_directory, weight_files
from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import FailureCode
from common.rpc.description import FileRequest
from server.models.draft_models import DraftModel

_log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024

_TOKENIZER_FILES = (
    # Not every tokenizer's own files name its class; config.json does.
    "config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    # Where transformers saves templates by name. It renders conversations with no others than these two.
    "additional_chat_templates/default.jinja",
    "additional_chat_templates/tool_use.jinja",
)
_MODEL_FILES = (CONFIG, "generation_config.json", SHARD_INDEX)
"""Beside the weights."""


@dataclass(frozen=True, slots=True)
class OfferedBundle:
    """A bundle and where each of its files lies."""

    manifest: BundleManifest
    sources: Mapping[str, Path]


def offer_lookup(target: Path, card: TargetCard) -> OfferedBundle:
    """The bundle without a model, for all kinds without one: the target's tokenizer."""
    return _offer(LOOKUP, LOOKUP, card, _tokenizer_sources(target))


def offer_causal_lm(
    target: Path, card: TargetCard, tokenizer: PreTrainedTokenizerBase, draft: str, kind: DraftKind
) -> OfferedBundle:
    """The bundle of a whole causal LM with the target's tokenizer.

    Raises as `find_causal_lm` does.
    """
    directory = find_causal_lm(draft, tokenizer, card.context, card.vocab_size)
    own = {name: directory / name for name in (*_MODEL_FILES, *_TOKENIZER_FILES) if (directory / name).is_file()}
    # No others: some repositories hold the same weights again under other names.
    own |= {path.name: path for path in weight_files(directory)}
    return _offer(checkpoint_name(draft), kind.name, card, own | _tokenizer_sources(target))


def find_causal_lm(draft: str, tokenizer: PreTrainedTokenizerBase, context: int | None, target_vocab_size: int) -> Path:
    """Where a causal LM lies that can draft for a target with that tokenizer, whose sequences have `context` tokens at
    most, each below `target_vocab_size`.

    Its vocabulary may be padded further than the tokenizer's, but must hold every token that the target knows: some
    tokenizers have more, such as Gemma 3's, whose images have a token that its smallest models lack. Raises MisuseError
    for what is no checkpoint, and for a draft that cannot propose the target's tokens, has no positions for all of the
    target's context, or whose frequencies would change within it: sessions share its weights, and its K/V would hold
    those of before. Raises CheckpointError where a file of its weights is missing or not whole.
    """
    directory = checkpoint_directory(draft, with_weights=True)
    if load_tokenizer(directory).get_vocab() != tokenizer.get_vocab():
        raise MisuseError(f"the draft {draft} has another tokenizer than the target; give one that shares it")
    config = load_config(directory)
    vocab_size, needed = config.vocab_size, min(len(tokenizer), target_vocab_size)
    if vocab_size < needed:
        raise MisuseError(
            f"the draft {draft} knows only {vocab_size} of the target's {needed} tokens; give another one"
        )
    bound = context_of(config) or 0
    is_short = context is None or bound < context
    if is_short and depends_on_longest(config):
        raise MisuseError(
            f"the draft {draft} scales positions beyond {bound} by the longest sequence of a pass, within the "
            "target's context; give one whose rope type is default, linear, yarn or llama3"
        )
    if is_short and has_position_table(config):
        raise MisuseError(
            f"the draft {draft} has a table of {bound} positions, which ends within the target's context; give one "
            "whose positions are rotary or as many"
        )
    for file in weight_files(directory):
        if file.parent != directory:
            raise MisuseError(
                f"the draft {draft} holds {file.name} in a folder of its own, which bundles do not have; save it again "
                "with `save_pretrained`"
            )
        describe_tensors(file)
    return directory


def offer_with_tail(target: Path, card: TargetCard, draft: DraftModel, client_half: Path, tail: Path) -> OfferedBundle:
    """The bundle of a draft that runs on the target's own embedding, last layers and head, which lie in `tail`; of the
    draft itself it has what lies in `client_half`.

    Raises MisuseError where a file is missing.
    """
    own = {name: client_half / name for name in (CONFIG, WEIGHTS)}
    end = {f"{TAIL_FOLDER}/{name}": tail / name for name in (CONFIG, WEIGHTS)}
    return _offer(draft.name, draft.kind.name, card, own | end | _tokenizer_sources(target))


def check_names_differ(bundles: Iterable[OfferedBundle]) -> None:
    """Raises MisuseError where two bundles of a target share a name, or one has that of a kind without weights."""
    names = Counter(bundle.manifest.draft for bundle in bundles)
    names.update(name for name in STATELESS_KINDS if name != LOOKUP)
    for name, count in names.items():
        if count > 1:
            raise MisuseError(f"two drafts are named '{name}'; rename the directory of one")


class BundleStore:
    """All bundles that this server hands out, of any target: an id belongs to one target's bundle alone."""

    def __init__(self, bundles: Iterable[OfferedBundle]):
        self._bundles = {bundle.manifest.id: bundle for bundle in bundles}

    async def read(self, request: FileRequest) -> AsyncGenerator[bytes]:
        """The file's bytes in chunks. Raises PeerError for anything that no manifest lists."""
        bundle = self._bundles.get(request.bundle)
        if bundle is None:
            raise PeerError("this server has no such bundle; ask it again what it offers", FailureCode.INVALID)
        entry = next((file for file in bundle.manifest.files if file.path == request.path), None)
        if entry is None:
            raise PeerError(f"the bundle has no file '{request.path}'", FailureCode.INVALID)
        if request.offset > entry.size:
            raise PeerError(f"the file '{request.path}' ends at {entry.size} bytes", FailureCode.INVALID)
        try:
            with bundle.sources[entry.path].open("rb") as file:
                file.seek(request.offset)
                while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
                    yield chunk
        except OSError as error:
            _log.error("%s cannot be read: %s", bundle.sources[entry.path], error.strerror)
            raise PeerError(f"the server can no longer read '{request.path}'", FailureCode.INTERNAL) from error


def checkpoint_name(path_or_id: str) -> str:
    """What people call a checkpoint: the last part of its directory or hub id."""
    return Path(path_or_id).expanduser().resolve().name


def write_bundle(bundle: OfferedBundle, card: TargetCard, out: Path) -> None:
    """Writes the bundle as a directory, or nothing. Raises MisuseError where `out` holds something or cannot be
    written."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise MisuseError(f"{out} is not an empty directory; name a new one")
    try:
        with removed_unless_whole(out):
            for path, source in bundle.sources.items():
                destination = out / path
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, destination)
            write_bundle_file(out, Bundle(bundle.manifest, card))
    except OSError as error:
        raise MisuseError(f"the bundle cannot be written to {out}: {error.strerror}") from error


def _tokenizer_sources(target: Path) -> dict[str, Path]:
    present = [name for name in _TOKENIZER_FILES if (target / name).is_file()]
    return {f"{TOKENIZER_FOLDER}/{name}": target / name for name in present}


def _offer(draft: str, kind: str, card: TargetCard, sources: Mapping[str, Path]) -> OfferedBundle:
    files = [describe_file(path, source) for path, source in sources.items()]
    return OfferedBundle(make_manifest(draft, kind, card.fingerprint, files), dict(sources))
