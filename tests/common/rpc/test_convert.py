"""Every message survives encoding, and every frame that is no message is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.address import Address
from common.bundle import BundleFile, make_manifest
from common.protocol.errors import PeerError
from common.protocol.logprobs import TokenLogprobs
from common.protocol.messages import (
    Ack,
    Cancel,
    Commit,
    Constraint,
    Draw,
    Extend,
    Failed,
    FailureCode,
    Finished,
    FinishReason,
    FromClient,
    FromServer,
    Grow,
    GrownNode,
    Open,
    Opened,
    Ping,
    Pong,
    Settings,
    State,
    StateAck,
    StateRequest,
)
from common.protocol.sampling import LIKELIEST, Sampling
from common.rpc import convert
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from common.rpc.grow_frames import MAX_COLUMNS

U32 = st.integers(0, 2**32 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
TOKENS = st.lists(U32, max_size=9).map(tuple)
NUMBERS = st.floats(allow_nan=False)
BIASES = st.lists(st.tuples(U32, NUMBERS), max_size=3).map(tuple)
SAMPLING = st.builds(
    Sampling, NUMBERS, U32, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2**64 - 1), NUMBERS, NUMBERS, BIASES
)
CONSTRAINTS = st.none() | st.builds(Constraint, TEXT, TEXT)
SETTINGS = st.builds(
    Settings, U32, TEXT, st.lists(TEXT, max_size=3).map(tuple), TEXT, SAMPLING, CONSTRAINTS, st.none() | U32
)
DRAWS = st.builds(Draw, TOKENS.filter(bool), TOKENS)


@st.composite
def grown_nodes(draw: st.DrawFn) -> tuple[GrownNode, ...]:
    ids = sorted(draw(st.sets(st.integers(1, 2**31), max_size=9)))
    logps = st.floats(max_value=0.0, width=32, allow_nan=False)
    parents = [draw(st.integers(0, id_ - 1) | st.sampled_from([0, *[i for i in ids if i < id_]])) for id_ in ids]
    draws = st.sampled_from([None, draw(DRAWS), draw(DRAWS)])
    return tuple(
        GrownNode(id_, parent, draw(U32), draw(logps), draw(draws)) for id_, parent in zip(ids, parents, strict=True)
    )


@st.composite
def logprobs(draw: st.DrawFn) -> tuple[TokenLogprobs, ...]:
    logps = st.floats(max_value=0.0, width=32, allow_nan=False)
    width = draw(st.integers(0, 3))
    top = st.lists(st.tuples(U32, logps), min_size=width, max_size=width).map(tuple)
    return draw(st.lists(st.builds(TokenLogprobs, logps, top), max_size=4).map(tuple))


FROM_CLIENT = st.one_of(
    st.builds(
        Open,
        U32,
        TEXT,
        TEXT,
        U32,
        TOKENS,
        U32,
        SETTINGS,
        st.none() | st.builds(StateRequest, TEXT, U32, TEXT, st.booleans()),
    ),
    st.builds(Extend, U32, U32, TOKENS, SETTINGS),
    st.builds(Grow, U32, U32, grown_nodes()),
    st.builds(Ack, U32, U32),
    st.builds(Cancel, U32),
    st.builds(StateAck, U32),
    st.builds(Ping, U32),
)
FROM_SERVER = st.one_of(
    st.builds(Opened, TEXT),
    st.builds(Commit, U32, U32, TOKENS, U32, logprobs()),
    st.builds(State, U32, U32, U32, TEXT, TEXT, TOKENS, st.binary(max_size=20)),
    st.builds(Finished, U32, U32, st.sampled_from(FinishReason)),
    st.builds(Failed, st.sampled_from(FailureCode), NAMES),
    st.builds(Pong, U32),
)
FILES = st.builds(BundleFile, st.sampled_from(["a", "b/c.json", "tokenizer/tokenizer.json"]), U32, DIGESTS)


@given(FROM_CLIENT)
def test_what_a_client_says_survives(message: FromClient) -> None:
    data = convert.frame_from_client(message).SerializeToString()
    assert convert.message_from_client(data) == message


@given(FROM_SERVER)
def test_what_a_server_says_survives(message: FromServer) -> None:
    data = convert.frame_from_server(message).SerializeToString()
    assert convert.message_from_server(pb.ServerFrame.FromString(data)) == message


@given(
    st.lists(FILES, max_size=3, unique_by=lambda file: file.path),
    TOKENS,
    st.lists(NAMES, max_size=3).map(tuple),
    st.floats(0, 2),
)
def test_descriptions_survive(
    files: list[BundleFile], ends: tuple[int, ...], names: tuple[str, ...], load: float
) -> None:
    bundles = tuple(make_manifest(draft, "lookup", "f", files) for draft in ("d", "e f"))
    quantised = tuple(make_manifest(draft, "lookup", "f", files, "int8") for draft in ("d", "e f"))
    models = ("model", "other")
    offered = (ends, names, names, bundles, quantised, models)
    replicas = (Address("10.0.0.1", 7070), Address("::1", 7071))
    told = (load, replicas, load > 1, "bfloat16 int8")
    said = ServerDescription(1, "0.1", "model", "f", 300, 2048, 512, *offered, *told)
    data = convert.description_frame(said).SerializeToString()
    assert convert.description(pb.DescribeReply.FromString(data)) == said


def test_a_server_that_names_no_targets_has_the_one_that_it_describes() -> None:
    said = ServerDescription(1, "0.1", "model", "f", 300, 2048, 512, (), (), (), ())
    assert said.served == ("model",)
    assert replace(said, models=("model", "other")).served == ("model", "other")


def test_a_server_of_a_release_without_fleets_is_alone_and_has_no_load() -> None:
    said = ServerDescription(1, "0.1", "model", "f", 300, 2048, 512, (), (), (), ())
    frame = convert.description_frame(replace(said, load=0.5, replicas=(Address("10.0.0.1", 7070),)))
    frame.ClearField("load")
    frame.ClearField("replicas")
    assert convert.description(frame) == said


@given(st.builds(FileRequest, NAMES, NAMES, st.integers(0, 2**64 - 1)))
def test_file_requests_survive(request: FileRequest) -> None:
    data = convert.file_request_frame(request).SerializeToString()
    assert convert.file_request(pb.FetchBundleRequest.FromString(data)) == request


def test_a_node_of_a_long_session_stays_small() -> None:
    near = tuple(GrownNode(1_000_000 + i, 999_999 + i, 100, -0.5) for i in range(1, 11))
    more = len(convert.frame_from_client(Grow(0, 5000, near)).SerializeToString())
    less = len(convert.frame_from_client(Grow(0, 5000, near[:5])).SerializeToString())
    assert more - less <= 5 * 7


def test_a_client_that_says_nothing_of_sampling_wants_the_likeliest_token() -> None:
    frame = pb.ClientFrame(extend=pb.Extend(turn=1, settings=pb.Settings(max_new_tokens=3, rule="greedy")))
    assert convert.message_from_client(frame.SerializeToString()) == Extend(1, 0, (), Settings(3, sampling=LIKELIEST))


def test_a_group_sends_its_draw_once() -> None:
    draw = Draw(tuple(range(100, 116)), (300,) * 16)
    groups = [tuple(GrownNode(i, 0, 99 + i, -0.5, draw) for i in range(1, count + 1)) for count in (1, 5)]
    alone, together = (len(convert.frame_from_client(Grow(0, 50, group)).SerializeToString()) for group in groups)
    assert together - alone <= 4 * 7


def frame_with_draws(*draws: pb.Draw) -> pb.ClientFrame:
    return pb.ClientFrame(grow=pb.Grow(id=[1, 1], parent=[0, 0], token=[3, 4], logp=[-1, -1], draw=draws))


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (frame_with_draws(pb.Draw(node=2, token=[3], weight=[1])), "a Grow has a Draw without nodes"),
        (frame_with_draws(pb.Draw(node=2**32 - 1)), "a Grow has a Draw without nodes"),
        (frame_with_draws(*[pb.Draw(node=0)] * 3), "a Grow has a Draw without nodes"),
        (pb.ClientFrame(grow=pb.Grow(draw=[pb.Draw()])), "a Grow has a Draw without nodes"),
        (frame_with_draws(pb.Draw(token=[1] * (MAX_COLUMNS + 1))), "a Draw is longer than the 4096 tokens"),
        (
            frame_with_draws(pb.Draw(weight=[1] * (MAX_COLUMNS + 1))),
            "a Draw is longer than the 4096 tokens",
        ),
    ],
    ids=["past the last node", "far past it", "more draws than nodes", "no node", "long in tokens", "long in weights"],
)
def test_malformed_draws_are_refused(frame: pb.ClientFrame, sentence: str) -> None:
    with pytest.raises(PeerError, match=sentence):
        convert.message_from_client(frame.SerializeToString())


@pytest.mark.parametrize(
    "frame",
    [
        pb.ClientFrame(),
        pb.ClientFrame(open=pb.Open(version=1, tokens=[1], prompt_length=1)),
        pb.ClientFrame(extend=pb.Extend(turn=1)),
        pb.ClientFrame(grow=pb.Grow(id=[1, 1], parent=[0], token=[3, 4], logp=[-1, -1])),
        pb.ClientFrame(grow=pb.Grow(id=[1], parent=[0], token=[3], logp=[])),
        pb.ClientFrame(grow=pb.Grow(id=[5], parent=[6], token=[3], logp=[-1])),
    ],
    ids=["empty", "open without settings", "extend without settings", "short column", "no column", "parent below 0"],
)
def test_malformed_frames_of_a_client_are_refused(frame: pb.ClientFrame) -> None:
    with pytest.raises(PeerError):
        convert.message_from_client(frame.SerializeToString())


def test_bytes_that_are_no_frame_of_a_client_are_refused() -> None:
    with pytest.raises(PeerError, match="cannot be decoded"):
        convert.message_from_client(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("logp", "top_token", "top_logp"), [(2, 3, 3), (0, 1, 1), (1, 2, 1), (1, 1, 2)], ids=lambda count: str(count)
)
def test_columns_of_log_probabilities_that_differ_are_refused(logp: int, top_token: int, top_logp: int) -> None:
    commit = pb.Commit(tokens=[1, 2], logp=[-1.0] * logp, top_token=[3] * top_token, top_logp=[-1.0] * top_logp)
    with pytest.raises(PeerError, match="log-probabilities"):
        convert.message_from_server(pb.ServerFrame(commit=commit))


def test_an_older_release_asks_for_no_log_probabilities_and_has_none() -> None:
    """Its frames lack the fields."""
    asked = convert.frame_from_client(Extend(1, 2, (3,), Settings(9)))
    assert not asked.extend.settings.HasField("top_logprobs")
    assert (
        convert.frame_from_server(Commit(0, 3, (4,))).ByteSize()
        == pb.ServerFrame(commit=pb.Commit(start=3, tokens=[4])).ByteSize()
    )


def test_a_grow_of_too_many_columns_is_refused_before_it_is_read() -> None:
    count = MAX_COLUMNS + 1
    # Its columns differ in length too: the first fault found must be the cheap one.
    with pytest.raises(PeerError, match=f"{count} nodes"):
        convert.message_from_client(pb.ClientFrame(grow=pb.Grow(id=[1] * count)).SerializeToString())


@pytest.mark.parametrize(
    "frame",
    [
        pb.ServerFrame(),
        pb.ServerFrame(finished=pb.Finished(reason="whim")),
    ],
    ids=["empty", "unknown reason"],
)
def test_malformed_frames_of_a_server_are_refused(frame: pb.ServerFrame) -> None:
    with pytest.raises(PeerError):
        convert.message_from_server(frame)


@pytest.mark.parametrize("id_", ["..", "../../elsewhere", "/etc", "", "0" * 64])
def test_a_bundle_cannot_choose_its_id(id_: str) -> None:
    bundle = make_manifest("d", "lookup", "f", [BundleFile("a", 1, "b" * 64)])
    said = ServerDescription(1, "0.1", "model", "f", 300, 2048, 512, (), (), (), (replace(bundle, id=id_),))
    with pytest.raises(PeerError, match="contradicts its id"):
        convert.description(convert.description_frame(said))
    with pytest.raises(PeerError, match="contradicts its id"):
        convert.description(convert.description_frame(replace(said, fingerprint="g", bundles=(bundle,))))


def test_a_failure_of_a_newer_kind_keeps_its_sentence() -> None:
    frame = pb.ServerFrame(failed=pb.Failed(code="whim", message="come back on Monday"))
    assert convert.message_from_server(frame) == Failed(FailureCode.INTERNAL, "come back on Monday")


@pytest.mark.parametrize(("said", "heard"), [(0.0, 0.0), (1.5, 1.5), (0.0001, 0.001), (1e12, (2**32 - 1) / 1000)])
def test_a_hint_when_to_try_again_survives_in_whole_milliseconds(said: float, heard: float) -> None:
    data = convert.frame_from_server(Failed(FailureCode.QUOTA, "later", said)).SerializeToString()
    assert convert.message_from_server(pb.ServerFrame.FromString(data)) == Failed(FailureCode.QUOTA, "later", heard)


def test_what_a_server_says_commands_no_terminal() -> None:
    frame = pb.ServerFrame(failed=pb.Failed(code="internal", message="sorry\x1b[2J\r\n" * 1000))
    failed = convert.message_from_server(frame)
    assert isinstance(failed, Failed)
    assert failed.message.startswith("sorry [2J  sorry [2J")
    assert failed.message.isprintable()
    assert len(failed.message) <= convert.LONGEST_SENTENCE + 1
    with pytest.raises(PeerError, match=r"the unknown reason '\[2J \[2J") as refused:
        convert.message_from_server(pb.ServerFrame(finished=pb.Finished(reason="\x1b[2J" * 1000)))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["x" * 256, "a\nb", "\x1b[2J"])
def test_a_request_for_what_no_file_is_called_is_refused(name: str) -> None:
    for request in (FileRequest(name, "config.json", 0), FileRequest("0" * 64, name, 0)):
        with pytest.raises(PeerError, match="a request for a file names none"):
            convert.file_request(convert.file_request_frame(request))


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 2142020592, 2**32 - 1])
def test_how_long_to_wait_survives_being_sent_on(milliseconds: int) -> None:
    frame = pb.ServerFrame(failed=pb.Failed(code="overloaded", message="later", retry_after_ms=milliseconds))
    assert convert.frame_from_server(convert.message_from_server(frame)) == frame
