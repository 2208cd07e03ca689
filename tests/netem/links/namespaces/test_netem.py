"""netem.links.namespaces.netem: profiles in the words of sch_netem."""

from dataclasses import replace

import pytest

from common.protocol.errors import MisuseError
from netem.links.burst_loss import Bursts
from netem.links.namespaces.messages import PacketCounters
from netem.links.namespaces.netem import counters_of, netem_arguments, require_expressible
from netem.links.outages import Outages
from netem.links.profile import Direction
from netem.links.profiles import find_profile
from netem.links.trace import Trace


def test_every_fault_has_its_words() -> None:
    assert " ".join(netem_arguments(find_profile("4g").up)) == (
        "netem limit 202 delay 21ms 19ms distribution normal loss random 0.100000% rate 20000000bit"
    )


def test_bursts_are_a_gilbert_elliott_model() -> None:
    bursty = Direction(1e6, bursts=Bursts(0.006, 0.33, 0.5, 0.0005))
    assert "loss gemodel 0.600000% 33.000000% 50.000000% 0.050000%" in " ".join(netem_arguments(bursty))


def test_no_link_has_no_fault() -> None:
    assert netem_arguments(Direction()) == ["netem", "limit", "1000000", "delay", "0ms"]


def test_what_sch_netem_cannot_do_is_refused() -> None:
    four_g = find_profile("4g")
    traced = replace(four_g, down=Direction(trace=Trace((1,))))
    interrupted = replace(four_g, outages=Outages(((1.0, 2.0),)))
    for profile in (traced, interrupted):
        with pytest.raises(MisuseError, match="neither outages nor traces"):
            require_expressible(profile)
    with pytest.raises(MisuseError, match="not both"):
        require_expressible(replace(four_g, up=replace(four_g.up, bursts=Bursts(0.1, 0.5, 0.5, 0))))
    require_expressible(four_g)


def test_its_statistics_are_read() -> None:
    said = '[{"kind":"netem","handle":"8001:","root":true,"bytes":98,"packets":2,"drops":1,"overlimits":0}]'
    assert counters_of(said) == PacketCounters(packets=2, bytes=98, dropped=1)
