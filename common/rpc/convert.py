"""The one place where messages become protobuf frames and frames become messages, with `grow_frames.py` for trees.

It checks that a frame has the shape of a message, no more: what a message may say is the protocol's business. It
may not know streams, channels or sessions.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain

from google.protobuf.message import DecodeError

from common.address import parse_destination
from common.bundle import BundleFile, BundleManifest, make_manifest
from common.protocol.errors import PeerError
from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import (
    Ack,
    Cancel,
    Commit,
    Constraint,
    Extend,
    Failed,
    FailureCode,
    Finished,
    FinishReason,
    FromClient,
    FromServer,
    Grow,
    Open,
    Opened,
    Ping,
    Pong,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.plain import LONGEST_NAME, is_plain, plain
from common.protocol.sampling import LIKELIEST, Sampling
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.description_checks import check_description
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.rpc.grow_frames import grow, grow_frame
from common.weight_only.modes import AS_IS

LONGEST_SENTENCE = 500
"""The most characters of a server's sentence for people."""

_LONGEST_MS = (1 << 32) - 1

_UNKNOWN_FRAME = "a frame is empty or of a kind that this release does not know"

# Generation frames. Each function is named after the message that it makes.


def frame_from_client(message: FromClient) -> pb.ClientFrame:
    match message:
        case Open():
            settings, state = _settings_frame(message.settings), message.state
            opened = pb.Open(
                version=message.version,
                fingerprint=message.fingerprint,
                session=message.session,
                turn=message.turn,
                tokens=message.tokens,
                prompt_length=message.prompt_length,
                settings=settings,
                state=None if state is None else _state_request_frame(state),
            )
            return pb.ClientFrame(open=opened)
        case Extend(turn, keep, tokens):
            settings = _settings_frame(message.settings)
            return pb.ClientFrame(extend=pb.Extend(turn=turn, keep=keep, tokens=tokens, settings=settings))
        case Grow():
            return pb.ClientFrame(grow=grow_frame(message))
        case Ack(turn, frontier):
            return pb.ClientFrame(ack=pb.Ack(turn=turn, frontier=frontier))
        case Cancel(turn):
            return pb.ClientFrame(cancel=pb.Cancel(turn=turn))
        case StateAck(frames):
            return pb.ClientFrame(state_ack=pb.StateAck(frames=frames))
        case Ping(number):
            return pb.ClientFrame(ping=pb.Ping(number=number))


def message_from_client(data: bytes) -> FromClient:
    """The message of a frame as it came over the wire. Raises PeerError for a malformed one."""
    try:
        frame = pb.ClientFrame.FromString(data)
    except DecodeError as error:
        raise PeerError("a frame cannot be decoded") from error
    match frame.WhichOneof("frame"):
        case "open":
            opened = frame.open
            return Open(
                version=opened.version,
                fingerprint=opened.fingerprint,
                session=opened.session,
                turn=opened.turn,
                tokens=tuple(opened.tokens),
                prompt_length=opened.prompt_length,
                settings=_settings(opened.settings if opened.HasField("settings") else None),
                state=_state_request(opened.state) if opened.HasField("state") else None,
            )
        case "extend":
            extend = frame.extend
            settings = _settings(extend.settings if extend.HasField("settings") else None)
            return Extend(extend.turn, extend.keep, tuple(extend.tokens), settings)
        case "grow":
            return grow(frame.grow)
        case "ack":
            return Ack(frame.ack.turn, frame.ack.frontier)
        case "cancel":
            return Cancel(frame.cancel.turn)
        case "state_ack":
            return StateAck(frame.state_ack.frames)
        case "ping":
            return Ping(frame.ping.number)
    raise PeerError(_UNKNOWN_FRAME)


def frame_from_server(message: FromServer) -> pb.ServerFrame:
    match message:
        case Opened(session):
            return pb.ServerFrame(opened=pb.Opened(session=session))
        case Commit(turn, start, tokens, seen):
            committed = pb.Commit(turn=turn, start=start, tokens=tokens, seen=seen)
            if message.logprobs:
                _add_logprobs(committed, message.logprobs)
            return pb.ServerFrame(commit=committed)
        case State():
            return pb.ServerFrame(state=pb.State(**asdict(message)))
        case Finished(turn, frontier, reason):
            return pb.ServerFrame(finished=pb.Finished(turn=turn, frontier=frontier, reason=reason.value))
        case Failed():
            return pb.ServerFrame(failed=_failed_frame(message))
        case Pong(number):
            return pb.ServerFrame(pong=pb.Pong(number=number))


def message_from_server(frame: pb.ServerFrame) -> FromServer:
    """Raises PeerError for a malformed frame."""
    match frame.WhichOneof("frame"):
        case "opened":
            return Opened(frame.opened.session)
        case "commit":
            commit = frame.commit
            has_logprobs = commit.logp or commit.top_token or commit.top_logp
            logprobs = _logprobs(commit) if has_logprobs else ()
            return Commit(commit.turn, commit.start, tuple(commit.tokens), commit.seen, logprobs)
        case "state":
            state = frame.state
            shape = tuple(state.shape)
            return State(state.turn, state.start, state.count, state.kind, state.dtype, shape, state.payload)
        case "finished":
            return _finished(frame.finished)
        case "failed":
            return _failed(frame.failed)
        case "pong":
            return Pong(frame.pong.number)
    raise PeerError(_UNKNOWN_FRAME)


def _settings_frame(settings: Settings) -> pb.Settings:
    return pb.Settings(
        max_new_tokens=settings.max_new_tokens,
        rule=settings.rule,
        stop=settings.stop,
        idle=settings.idle,
        sampling=_sampling_frame(settings.sampling),
        constraint=None if settings.constraint is None else pb.Constraint(**asdict(settings.constraint)),
        top_logprobs=settings.top_logprobs,
    )


def _settings(frame: pb.Settings | None) -> Settings:
    if frame is None:
        raise PeerError("an answer is asked for without settings")
    sampling = _sampling(frame.sampling) if frame.HasField("sampling") else LIKELIEST
    asked = frame.constraint if frame.HasField("constraint") else None
    constraint = None if asked is None else Constraint(asked.grammar, asked.text)
    top = frame.top_logprobs if frame.HasField("top_logprobs") else None
    return Settings(frame.max_new_tokens, frame.rule, tuple(frame.stop), frame.idle, sampling, constraint, top)


def _sampling_frame(sampling: Sampling) -> pb.Sampling:
    bias = sampling.logit_bias
    fields = {**asdict(sampling), "logit_bias": [pb.LogitBias(token=token, bias=value) for token, value in bias]}
    return pb.Sampling(**fields)


def _sampling(frame: pb.Sampling) -> Sampling:
    return Sampling(
        frame.temperature,
        frame.top_k,
        frame.top_p,
        frame.min_p,
        frame.repetition_penalty,
        frame.seed,
        frame.presence_penalty,
        frame.frequency_penalty,
        tuple((each.token, each.bias) for each in frame.logit_bias),
    )


def _state_request_frame(request: StateRequest) -> pb.StateRequest:
    return pb.StateRequest(draft=request.draft, layers=request.layers, dtype=request.dtype, later=request.later)


def _state_request(frame: pb.StateRequest) -> StateRequest:
    return StateRequest(frame.draft, frame.layers, frame.dtype, frame.later)


def _add_logprobs(frame: pb.Commit, rows: Sequence[TokenLogprobs]) -> None:
    top = list(chain.from_iterable(row.top for row in rows))
    frame.logp.extend(row.logp for row in rows)
    frame.top_token.extend(token for token, _ in top)
    frame.top_logp.extend(logp for _, logp in top)


def _logprobs(frame: pb.Commit) -> tuple[TokenLogprobs, ...]:
    rows, top = len(frame.logp), list(zip(frame.top_token, frame.top_logp, strict=False))
    each = len(top) // max(rows, 1)
    if not len(frame.top_token) == len(frame.top_logp) == rows * each:
        raise PeerError("the columns of a Commit's log-probabilities differ in length")
    return tuple(TokenLogprobs(logp, tuple(top[row * each :][:each])) for row, logp in enumerate(frame.logp))


def _finished(frame: pb.Finished) -> Finished:
    try:
        reason = FinishReason(frame.reason)
    except ValueError as error:
        raise PeerError(f"Finished gives the unknown reason '{plain(frame.reason)}'") from error
    return Finished(frame.turn, frame.frontier, reason)


def _failed_frame(message: Failed) -> pb.Failed:
    # Rounded up, after removing the rounding error of the product, and limited to what the field holds.
    retry_after_ms = min(math.ceil(round(message.retry_after * 1000, 3)), _LONGEST_MS)
    return pb.Failed(code=message.code.value, message=message.message, retry_after_ms=retry_after_ms)


def _failed(frame: pb.Failed) -> Failed:
    try:
        code = FailureCode(frame.code)
    except ValueError:
        code = FailureCode.INTERNAL  # a code of a newer server, whose sentence is still shown
    return Failed(code, plain(frame.message, LONGEST_SENTENCE), frame.retry_after_ms / 1000)


# The server's description and its bundles.


def description_frame(description: ServerDescription) -> pb.DescribeReply:
    return pb.DescribeReply(
        version=description.version,
        release=description.release,
        model=description.model,
        fingerprint=description.fingerprint,
        vocab_size=description.vocab_size,
        context=description.context,
        max_nodes=description.max_nodes,
        end_tokens=description.end_tokens,
        rules=description.rules,
        idle_policies=description.idle_policies,
        bundles=[_bundle_frame(bundle) for bundle in description.bundles],
        models=description.models,
        quantised=[_bundle_frame(bundle) for bundle in description.quantised],
        load=description.load,
        replicas=map(str, description.replicas),
        logprobs=description.logprobs,
        numerics=description.numerics,
    )


def description(frame: pb.DescribeReply) -> ServerDescription:
    """Raises PeerError for impossible values, and for a bundle whose id is not the hash of its content."""
    check_description(frame)
    return ServerDescription(
        version=frame.version,
        release=frame.release,
        model=frame.model,
        fingerprint=frame.fingerprint,
        vocab_size=frame.vocab_size,
        context=frame.context,
        max_nodes=frame.max_nodes,
        end_tokens=tuple(frame.end_tokens),
        rules=tuple(frame.rules),
        idle_policies=tuple(frame.idle_policies),
        bundles=tuple(_bundle(bundle, frame.fingerprint) for bundle in frame.bundles),
        models=tuple(frame.models),
        quantised=tuple(_bundle(bundle, frame.fingerprint) for bundle in frame.quantised),
        load=frame.load,
        replicas=tuple(map(parse_destination, frame.replicas)),
        logprobs=frame.logprobs,
        numerics=frame.numerics,
    )


def description_bytes(description: ServerDescription) -> bytes:
    """The description as bytes, to be stored in a file."""
    return description_frame(description).SerializeToString()


def description_from_bytes(data: bytes) -> ServerDescription:
    """Raises PeerError where the bytes are no description."""
    try:
        frame = pb.DescribeReply.FromString(data)
    except DecodeError as error:
        raise PeerError("what was kept of a server cannot be read") from error
    return description(frame)


def requested_model(frame: pb.DescribeRequest) -> str:
    """The name of the target that is to be described, empty for the server's first. Raises PeerError for what is no
    name."""
    if frame.model and not is_plain(frame.model):
        raise PeerError(f"no model can be named '{plain(frame.model)}'", FailureCode.INVALID)
    return frame.model


def file_request_frame(request: FileRequest) -> pb.FetchBundleRequest:
    return pb.FetchBundleRequest(bundle_id=request.bundle, path=request.path, offset=request.offset)


def file_request(frame: pb.FetchBundleRequest) -> FileRequest:
    """Raises PeerError for names that are too long or not printable."""
    if any(len(name) > LONGEST_NAME or not name.isprintable() for name in (frame.bundle_id, frame.path)):
        raise PeerError("a request for a file names none; ask for one that the server lists", FailureCode.INVALID)
    return FileRequest(frame.bundle_id, frame.path, frame.offset)


def _bundle_frame(bundle: BundleManifest) -> pb.Bundle:
    files = [pb.BundleFile(path=file.path, size=file.size, sha256=file.sha256) for file in bundle.files]
    weights = "" if bundle.weights == AS_IS else bundle.weights
    return pb.Bundle(id=bundle.id, draft=bundle.draft, kind=bundle.kind, files=files, weights=weights)


def _bundle(frame: pb.Bundle, fingerprint: str) -> BundleManifest:
    files = (BundleFile(file.path, file.size, file.sha256) for file in frame.files)
    manifest = make_manifest(frame.draft, frame.kind, fingerprint, files, frame.weights or AS_IS)
    # Clients name directories after ids, so that a server may not choose an id freely.
    if manifest.id != frame.id:
        raise PeerError(f"the bundle '{frame.draft}' contradicts its id")
    return manifest
