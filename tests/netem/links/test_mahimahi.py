"""netem.links.mahimahi: reading, refusing and writing trace files."""

from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from netem.links.errors import LinkFailureError
from netem.links.mahimahi import parse_trace, read_trace, with_traces, write_traces
from netem.links.profiles import find_profile
from netem.links.trace import Trace


def test_a_trace_survives_its_file(tmp_path: Path) -> None:
    up, down = Trace((1, 1, 5)), Trace((0, 40))
    write_traces(tmp_path / "new", up, down)
    assert read_trace(tmp_path / "new" / "up.trace") == up
    assert read_trace(tmp_path / "new" / "down.trace") == down


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1\n2\nx\n", "line 3 of a.trace"),
        ("1\n\n2\n", "line 2 of a.trace"),
        ("1\n2.5\n", "line 2 of a.trace"),
        ("-1\n2\n", "line 1 of a.trace"),
        ("5\n4\n", "line 2 of a.trace goes back from 5 to 4"),
        ("", "no opportunity"),
        ("0\n0\n", "no opportunity"),
        ("1\n" + "9" * 5000, "line 2 of a.trace is more than 1,000,000,000,000 ms"),
        ("9" * 400, "line 1 of a.trace is more than"),
        ("1000000000001", "at most 1,000,000,000,000"),
    ],
)
def test_a_malformed_trace_is_answered_with_its_line(text: str, advice: str) -> None:
    with pytest.raises(MisuseError, match=advice):
        parse_trace(text, "a.trace")


def test_zeros_before_a_number_change_nothing() -> None:
    assert parse_trace("0" * 5000 + "7\n1000000000000", "a.trace") == Trace((7, 10**12))


def test_a_file_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="cannot be read"):
        read_trace(tmp_path / "absent")


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LinkFailureError, match="cannot write traces"):
        write_traces(tmp_path / "file" / "folder", Trace((1,)), Trace((1,)))


def test_a_profile_takes_the_rates_of_files_and_keeps_the_rest(tmp_path: Path) -> None:
    write_traces(tmp_path, Trace((1, 5)), Trace((2, 7)))
    four_g = find_profile("4g")
    traced = with_traces(four_g, tmp_path / "up.trace", None)
    assert traced.up.trace == Trace((1, 5))
    assert (traced.up.rate_bits_per_s, traced.up.delay_ms, traced.up.loss) == (None, 21, 0.001)
    assert traced.down == four_g.down
