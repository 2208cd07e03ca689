"""Checks every field of a server's description before it is used: numbers in possible ranges, names that can be
printed, bundles of bounded size.

Knows frames and no connection.
"""

import math
import re
from collections.abc import Hashable, Iterable

from common.address import parse_destination
from common.bundle import stays_inside
from common.protocol.errors import MisuseError, PeerError
from common.protocol.plain import LONGEST_NAME, is_plain, is_typeable, plain
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.weight_only.modes import QUANTISED

MOST_BUNDLES = 64  # of one target, those in other weights modes not counted
MOST_FILES = 1024  # of one bundle
MOST_FILE_BYTES = 1 << 40
MOST_END_TOKENS = 1024
MOST_NAMES = 64  # of rules, idle policies or targets
MOST_REPLICAS = 256
MOST_TOKENS = 1 << 22  # of a vocabulary
MOST_POSITIONS = 1 << 21  # of a context
MOST_NODES = 1 << 16

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_description(frame: pb.DescribeReply) -> None:
    """Raises PeerError for the first field of a description that is impossible."""
    for what, name in (("release", frame.release), ("fingerprint", frame.fingerprint)):
        _check_name(f"a {what}", name)
    _check_count("models", len(frame.models), MOST_NAMES)
    for model in (frame.model, *frame.models):
        _check_model(model)
    for what, number, most in (
        ("a vocabulary", frame.vocab_size, MOST_TOKENS),
        ("a context", frame.context, MOST_POSITIONS),
        ("a tree", frame.max_nodes, MOST_NODES),
    ):
        if not 0 < number <= most:
            raise PeerError(f"the server speaks of {what} of {number}, which cannot be; 1 to {most} could")
    _check_count("end tokens", len(frame.end_tokens), MOST_END_TOKENS)
    for what, names in (("rules", frame.rules), ("idle policies", frame.idle_policies)):
        _check_count(what, len(names), MOST_NAMES)
        for name in names:
            _check_name(f"one of its {what}", name)
    _check_differ("models", frame.models)
    _check_count("bundles", len(frame.bundles), MOST_BUNDLES)
    _check_differ("bundles", (bundle.draft for bundle in frame.bundles))
    _check_count("quantised bundles", len(frame.quantised), MOST_BUNDLES * len(QUANTISED))
    _check_differ("quantised bundles", ((bundle.draft, bundle.weights) for bundle in frame.quantised))
    for bundle in (*frame.bundles, *frame.quantised):
        _check_bundle(bundle)
    for bundle in frame.quantised:
        _check_name("a weights mode", bundle.weights)
    if any(bundle.weights for bundle in frame.bundles):
        raise PeerError("the server names a quantised bundle among those whose weights are as they are")
    if not 0 <= frame.load < math.inf:
        raise PeerError(f"the server speaks of a load of {frame.load}, which cannot be")
    if frame.numerics:
        _check_name("what it computes in", frame.numerics)
    _check_count("replicas", len(frame.replicas), MOST_REPLICAS)
    _check_differ("replicas", frame.replicas)
    for address in frame.replicas:
        _check_address(address)


def _check_bundle(bundle: pb.Bundle) -> None:
    _check_name("a draft", bundle.draft)
    _check_name("a kind of draft", bundle.kind)
    _check_count("files", len(bundle.files), MOST_FILES)
    for file in bundle.files:
        if not stays_inside(file.path):
            raise PeerError(
                f"the bundle '{bundle.draft}' names the file '{plain(file.path)}', which would lie outside it"
            )
        _check_name("a file", file.path)
        if file.path.endswith(".part"):
            raise PeerError(f"the bundle '{bundle.draft}' names the file '{file.path}' as no whole file is named")
        if file.size > MOST_FILE_BYTES or not _SHA256.fullmatch(file.sha256):
            raise PeerError(f"the bundle '{bundle.draft}' gives '{file.path}' a size or a checksum that cannot be")
    _check_differ("files", (file.path for file in bundle.files))


def _check_model(name: str) -> None:
    """A name that commands in errors may hold: people copy these into a shell."""
    if not is_typeable(name):
        raise PeerError(
            f"the server calls a model '{plain(name)}', which nobody could type; its operator has to name it anew"
        )


def _check_address(address: str) -> None:
    _check_name("a replica", address)
    try:
        parse_destination(address)
    except MisuseError as error:
        raise PeerError(f"the server lists a replica at '{address}', which is no address") from error


def _check_name(what: str, name: str) -> None:
    if not is_plain(name):
        raise PeerError(f"the server calls {what} '{plain(name)}'; a name has 1 to {LONGEST_NAME} printable characters")


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise PeerError(f"the server names {count} {what}, more than the {most} that any could have")


def _check_differ(what: str, names: Iterable[Hashable]) -> None:
    listed = list(names)
    if len(set(listed)) < len(listed):
        raise PeerError(f"two of the server's {what} have the same name")
