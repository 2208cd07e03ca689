"""A token passes few functions of ours between the prompt and the screen, and all of them are known."""

from pathlib import Path

import pytest

from tests.end_to_end.way_of_a_token import LEGS, Trace, walk

MOST = {"up": 9, "server": 24, "down": 12}
"""Functions of each leg. May only fall."""


@pytest.fixture
async def trace(tmp_path: Path) -> Trace:
    return await walk(tmp_path)


async def test_the_way_is_short(trace: Trace) -> None:
    for leg in LEGS:
        steps = trace.leg(leg)
        assert len(steps) <= MOST[leg], "\n".join(steps)


async def test_the_way_is_found_whole(trace: Trace) -> None:
    """A tracer that loses sight of the token would find too few functions."""
    landmarks = {
        "up": ("Conversation.answer", "ClientSession.open", "frame_from_client", "GenerateStream._write"),
        "server": (
            "message_from_client",
            "ServerSession.plan",
            "PackedModel.forward",
            "OutgoingQueue.put",
            "frame_from_server",
        ),
        "down": ("message_from_server", "ClientSession.receive", "AnswerView.__call__", "IncrementalText.commit"),
    }
    for leg, names in landmarks.items():
        steps = [name.partition(":")[2] for name in trace.leg(leg)]
        assert [name for name in names if name in steps] == list(names)
