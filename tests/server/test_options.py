"""How durations and targets are written, and how the cache is divided."""

from pathlib import Path

import pytest

from common.address import Address
from common.protocol.errors import MisuseError
from server.cli_options import FleetFlags
from server.options import TargetOptions, parse_duration, parse_target, split_cache_tokens


def test_durations_are_milliseconds_unless_they_say_otherwise() -> None:
    texts = ("30", "30ms", "0.1 ms", "1.5s", "0")
    assert [parse_duration(text) for text in texts] == pytest.approx([0.03, 0.03, 0.0001, 1.5, 0.0])


@pytest.mark.parametrize("text", ["", "ms", "-3", "3m", "1e3", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="no duration"):
        parse_duration(text)


def test_a_target_may_be_named(tmp_path: Path) -> None:
    odd = tmp_path / "a=b"
    odd.mkdir()
    given = ("demo", "big=meta-llama/Llama-3.1-8B", "models/a=b", str(odd), "eq=x=y")
    named = [("", "demo"), ("big", "meta-llama/Llama-3.1-8B"), ("", "models/a=b"), ("", str(odd)), ("eq", "x=y")]
    assert [parse_target(text) for text in given] == named


@pytest.mark.parametrize("name", ["", "two words", "-v", ".", "..", "n\u202eame", "a" * 65, "\x1b[2J"])
def test_a_name_that_nobody_could_type_is_refused(name: str) -> None:
    with pytest.raises(MisuseError, match=r"a target cannot be named '.*'; use 1 to 64 of the letters") as refused:
        parse_target(f"{name}=checkpoint")
    assert str(refused.value).isprintable()


def test_the_cache_is_divided_equally_or_as_it_is_said() -> None:
    assert split_cache_tokens([1000], 1) == [1000]
    assert split_cache_tokens([1001], 3) == [333, 333, 333]
    assert split_cache_tokens([700, 300], 2) == [700, 300]
    with pytest.raises(MisuseError, match="--cache-tokens was given 2 times for 3 targets"):
        split_cache_tokens([1, 2], 3)


@pytest.mark.parametrize(("given", "targets", "least"), [([1], 1, 1), ([63], 1, 63), ([191], 3, 63), ([64, 9], 2, 9)])
def test_a_cache_that_can_hold_no_answer_is_refused(given: list[int], targets: int, least: int) -> None:
    with pytest.raises(MisuseError, match=f"leaves a target {least}, too few .*; give each target at least 64"):
        split_cache_tokens(given, targets)
    assert split_cache_tokens([64], 1) == [64]


def test_a_replica_of_a_fleet_is_dialled_where_it_listens_or_as_it_says() -> None:
    here, everywhere = Address("127.0.0.1", 7070), Address("0.0.0.0", 7070)
    store = "redis://127.0.0.1:6379/0"
    assert FleetFlags().options(everywhere).store is None
    assert FleetFlags(store).options(here).advertised is None
    assert FleetFlags(store, "gpu.example.org:7071").options(everywhere).advertised == Address("gpu.example.org", 7071)
    with pytest.raises(MisuseError, match=r"clients cannot dial 0\.0\.0\.0:7070; give --advertise"):
        FleetFlags(store).options(everywhere)
    with pytest.raises(MisuseError, match="give --fleet-store too"):
        FleetFlags(advertise="gpu.example.org:7071").options(here)
    with pytest.raises(MisuseError, match="names no port"):
        FleetFlags(store, "gpu.example.org:0").options(here)


@pytest.mark.parametrize(
    ("dtype", "quantise", "is_batch_invariant", "told"),
    [
        ("bfloat16", "", True, "bfloat16"),
        ("bfloat16", "int8", True, "bfloat16 int8"),
        ("float16", "int8", False, "float16 int8 fast"),
        ("float32", "", False, "float32"),
        ("float32", "", True, "float32 batch-invariant"),
    ],
)
def test_what_passes_are_computed_in_and_how_is_told_in_few_words(
    dtype: str, quantise: str, is_batch_invariant: bool, told: str
) -> None:
    assert TargetOptions((), (), "cpu", dtype, 0, quantise).numerics(is_batch_invariant) == told
