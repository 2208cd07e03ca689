"""What a client reads from a server and keeps: descriptions, requests for draft state, pins."""

import asyncio
import tempfile
from pathlib import Path
from random import Random

from google.protobuf.message import DecodeError

from client.cache.bundles import bundle_directory, choose_bundle
from client.cache.known_servers import recall, remember
from client.cache.pins import keep_pin
from client.errors import BundleError
from common.address import Address
from common.bundle import BundleFile, make_manifest
from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc import convert
from common.rpc.description import ServerDescription
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.harness import FaultError, check_sentence
from tests.fuzz.mutation import STRINGS, U64, FuzzedFrame, Mutator, damaged, number

_ADDRESS = Address("gpu.example.org", 7070)
_PIN_SECONDS = 5.0
"""Nobody holds the lock, so that a pin is written at once."""

_FILES = [BundleFile(path, 9, "0" * 64) for path in ("config.json", "model.safetensors", "tokenizer/tokenizer.json")]
_BUNDLES = tuple(make_manifest(draft, "moa", "f" * 64, _FILES) for draft in ("moa", "lookup"))
_SAID = ServerDescription(
    PROTOCOL_VERSION, "0.1", "model", "f" * 64, 300, 2048, 512, (0, 1), ("greedy",), ("eager",), _BUNDLES
)


class DescriptionHarness:
    """A frame's first byte says which of these it is."""

    def __init__(self, rng: Random):
        self._folder = tempfile.TemporaryDirectory(prefix="outrider-fuzz-")
        self._cache = Path(self._folder.name)
        self._mutate = Mutator()
        remember(self._cache, str(_ADDRESS), _SAID)
        (self._server_file,) = (self._cache / "servers").iterdir()
        self._runner = asyncio.Runner()
        self._runner.run(keep_pin(self._cache, _ADDRESS, _SAID, _BUNDLES[0]))
        self._files = [file.read_bytes() for file in (self._cache / "pins.json", self._server_file)]

    def frame(self, rng: Random) -> FuzzedFrame:
        kind = rng.choice((0, 0, 0, 1, 2, 3))
        if kind < 2:
            fuzzed = self._mutate(_description(rng) if kind == 0 else _request(rng), rng)
        else:
            fuzzed = FuzzedFrame(damaged(self._files[kind - 2], rng, b'[{"a":' * 20), mutated=True)
            if rng.random() < 0.01:
                fuzzed = FuzzedFrame(b"[" * 100_000, mutated=True)
        return fuzzed._replace(data=bytes((kind,)) + fuzzed.data)

    def take(self, data: bytes) -> str:
        kind, data = data[0], data[1:]
        try:
            return (self._describe, self._request, self._pins, self._server)[kind](data)
        except DecodeError:
            return "undecodable"
        except (PeerError, MisuseError, BundleError) as error:
            check_sentence(error)
            return "refused"

    def end(self) -> None:
        self._folder.cleanup()

    def _describe(self, data: bytes) -> str:
        description = convert.description(pb.DescribeReply.FromString(data))
        for manifest in description.bundles:
            directory = bundle_directory(self._cache, choose_bundle(description.bundles, manifest.draft)).resolve()
            if directory.parent != (self._cache / "bundles").resolve():
                raise FaultError(f"a bundle would lie in {directory}")
            for file in manifest.files:
                if not (directory / file.path).resolve().is_relative_to(directory) or not file.path.isprintable():
                    raise FaultError(f"a file would lie at {file.path!r}")
        return "decoded"

    def _request(self, data: bytes) -> str:
        convert.file_request(pb.FetchBundleRequest.FromString(data))
        return "decoded"

    def _pins(self, data: bytes) -> str:
        (self._cache / "pins.json").write_bytes(data)
        pinned = keep_pin(self._cache, _ADDRESS, _SAID, _BUNDLES[0])
        try:
            self._runner.run(asyncio.wait_for(pinned, _PIN_SECONDS))
        except TimeoutError:
            raise FaultError("a pin waits for a lock that nobody holds") from None
        return "decoded"

    def _server(self, data: bytes) -> str:
        self._server_file.write_bytes(data)
        return "decoded" if recall(self._cache, str(_ADDRESS)) else "refused"


def _description(rng: Random) -> pb.DescribeReply:
    """Bundle ids match their contents: a malicious server can compute them too."""
    frame = convert.description_frame(_SAID)
    bundle = frame.bundles[0]
    if rng.random() < 0.3:
        bundle.draft = rng.choice(STRINGS)
    if rng.random() < 0.3:
        bundle.files[0].path = rng.choice(STRINGS)
    if rng.random() < 0.1:
        bundle.files[0].size = number(rng, 9, U64)
    files = (BundleFile(file.path, file.size, file.sha256) for file in bundle.files)
    bundle.id = make_manifest(bundle.draft, bundle.kind, frame.fingerprint, files).id
    if rng.random() < 0.001:
        many = rng.choice((frame.end_tokens, frame.rules, frame.bundles[0].files))
        many.extend(list(many) * rng.choice((100, 30_000)))
    return frame


def _request(rng: Random) -> pb.FetchBundleRequest:
    path = rng.choice((_FILES[0].path, *STRINGS))
    return pb.FetchBundleRequest(bundle_id=_BUNDLES[0].id, path=path, offset=number(rng, 3, U64))
