"""The server in memory counts as a real stream does, and in no more time for a long answer."""

from common.protocol.client_session import ClientSession
from common.protocol.messages import Finished, FromServer, Settings, State
from common.rpc.traffic import Traffic
from tests.client import fakes
from tests.client.fakes import LIMITS, REQUEST, SESSION, FakeStream, down_bytes, up_bytes


async def test_each_frame_is_measured_once_however_often_traffic_is_asked_for(monkeypatch):
    measured: list[FromServer] = []
    monkeypatch.setattr(fakes, "down_bytes", lambda frame: measured.append(frame) or down_bytes(frame))
    stream, session = FakeStream(), ClientSession(SESSION, LIMITS, REQUEST)
    stream.send(session.open([5, 6, 7], Settings(max_new_tokens=4, idle="eager")))
    while session.finished is None or not any(isinstance(each, State) for each in stream.received):
        session.receive(await stream.receive())
        assert stream.traffic.down > 0
    stream.close()
    assert any(isinstance(each, Finished) for each in stream.received)
    assert measured == stream.received
    state = sum(down_bytes(each) for each in stream.received if isinstance(each, State))
    down = sum(map(down_bytes, stream.received))
    assert stream.traffic == Traffic(sum(map(up_bytes, stream.sent)), down, {"lsa": state})
