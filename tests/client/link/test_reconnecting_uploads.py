"""The upload of a stream that was lost is known until there is another stream, or another answer."""

import pytest

from netem.virtual.clock import run_virtually
from tests.client.link.test_reconnecting_stream import Dialler, FakeStream, reconnecting_stream


@pytest.mark.parametrize("is_next_answer", [False, True], ids=["another stream", "another answer"])
def test_the_upload_of_a_stream_that_was_lost_is_known_until_there_is_another(is_next_answer):
    async def run():
        line = reconnecting_stream(None, Dialler(FakeStream(up=80_000), FakeStream(up=0)))
        line.expect_answer()
        await line.reconnect()
        line.drop()
        assert (line.upload_s(), line.answer_upload_s()) == (0.0, 5.0)
        if is_next_answer:
            line.expect_nothing()
            line.expect_answer()
        else:
            await line.reconnect()
        assert line.answer_upload_s() == 0.0

    run_virtually(run())
