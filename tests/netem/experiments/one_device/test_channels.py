import pytest
import torch

from common.codec import decode, encode
from common.protocol.draft_state import FIRST_POSITIONS, StateKind
from common.protocol.messages import State
from netem.experiments.one_device.channels import (
    CoarseChannel,
    GappedChannel,
    LaggingChannel,
    RecordingChannel,
    SlowChannel,
    calibrated,
)

WIDTH = 64


def numbers(start, count, kind="lsa"):
    shape = (count, 2, 2, WIDTH) if kind == "kv" else (count, WIDTH)
    return torch.randn(shape, generator=torch.Generator().manual_seed(start))


def frame(start, count, kind="lsa", dtype="float16"):
    rows = numbers(start, count, kind)
    return State(0, start, count, kind, dtype, tuple(rows.shape), encode(rows, dtype))


def read(state):
    return decode(state.payload, state.dtype, state.shape)


def positions(frames):
    return [position for each in frames for position in range(each.start, each.start + each.count)]


def test_fewer_bits_err_more():
    errors = []
    for dtype in ("float16", "int8", "int6", "int4"):
        (state,) = CoarseChannel({"lsa": dtype}).deliver([frame(0, 9)], 9)
        assert (state.start, state.count, state.dtype) == (0, 9, "float16")
        errors.append(float((read(state) - numbers(0, 9)).norm() / numbers(0, 9).norm()))
    assert errors == sorted(errors)
    assert errors[0] < 0.001 < errors[1] < 0.015
    assert errors[-1] > 0.03


@pytest.mark.parametrize(("part", "place"), [("keys", 0), ("values", 1)])
def test_keys_and_values_are_coarsened_apart(part, place):
    (state,) = CoarseChannel({part: "int4"}).deliver([frame(0, 5, "kv")], 5)
    off = (read(state) - numbers(0, 5, "kv")).abs().amax(dim=(0, 1, 3))
    assert off[place] > 0.05
    assert off[1 - place] < 0.005


def test_static_scales_help_where_channels_differ():
    rows = numbers(0, 40) * torch.logspace(-2, 2, WIDTH)
    exported = State(0, 0, 40, "lsa", "float16", tuple(rows.shape), encode(rows, "float16"))
    recording = RecordingChannel()
    assert recording.deliver([exported], 40) == [exported]
    scales = calibrated(recording.seen)
    assert torch.allclose(scales["lsa"], rows.square().mean(0).sqrt(), rtol=0.01)

    def error(channel):
        (state,) = channel.deliver([exported], 40)
        return float(((read(state) - rows) / scales["lsa"]).square().mean())

    assert error(CoarseChannel({"lsa": "int4"}, scales)) < 0.1 * error(CoarseChannel({"lsa": "int4"}))


def test_a_lag_holds_back_the_newest_positions_until_newer_ones_come():
    channel = LaggingChannel(3)
    assert positions(channel.deliver([frame(0, 8)], 8)) == [0, 1, 2, 3, 4]
    assert positions(channel.deliver([frame(8, 2)], 10)) == [5, 6]
    assert positions(channel.deliver([], 10)) == []
    assert positions(LaggingChannel(0).deliver([frame(0, 8)], 8)) == list(range(8))


def test_what_is_held_back_arrives_as_it_was():
    channel = LaggingChannel(2)
    channel.deliver([frame(0, 6)], 6)
    (state,) = channel.deliver([frame(6, 2)], 8)
    assert (state.start, state.count) == (4, 2)
    assert torch.allclose(read(state), numbers(0, 6)[4:], atol=0.01)


def test_gaps_are_in_the_prompt_alone_and_grow_with_their_share():
    arrived = []
    for share in (0.0, 0.3, 0.7, 1.0):
        channel = GappedChannel(share, prompt=200, seed=1)
        assert positions(channel.deliver([], 0)) == []
        prompt = set(positions(channel.deliver([frame(0, 200)], 200)))
        assert positions(channel.deliver([frame(200, 4)], 204)) == [200, 201, 202, 203]
        arrived.append(prompt)
    assert arrived[0] == set(range(200))
    assert arrived[-1] == set(range(FIRST_POSITIONS))
    assert arrived[0] > arrived[1] > arrived[2] > arrived[3]


@pytest.mark.parametrize(("order", "first"), [("newest", [0, 1, 2, 3]), ("prefix", [0, 1, 2, 3, 4, 5, 6])])
def test_a_slow_link_carries_so_much_in_each_round_in_its_order(order, first):
    # Seven positions make one frame, as Llama-3-8B's do.
    channel = SlowChannel(order, 7 * 2176, [StateKind("lsa", (2048,))], "int8")
    rounds = [positions(channel.deliver([], 0)), positions(channel.deliver([frame(0, 100)], 100))]
    assert rounds[0] == []
    assert rounds[1][: len(first)] == first
    rounds += [positions(channel.deliver([], 100)) for _ in range(30)]
    assert all(len(arrived) <= 14 for arrived in rounds)
    assert sorted(position for arrived in rounds for position in arrived) == list(range(100))
    assert (99 in [*rounds[1], *rounds[2]]) == (order == "newest")
