from common.protocol.messages import (
    PROTOCOL_VERSION,
    Ack,
    Commit,
    Grow,
    Open,
    Settings,
    State,
    StateAck,
)
from common.rpc.convert import frame_from_client
from common.rpc.traffic import Traffic
from netem.experiments.one_device.byte_counts import ANSWER, NODES, OTHER, PROMPT, TOKENS, ByteCounts, MeteredConnection


def opened(counts, prompt_length):
    message = Open(PROTOCOL_VERSION, "f", "s", 0, (1,) * prompt_length, prompt_length, Settings(8))
    counts.sent(message, 50)


def state(start, count, kind="lsa"):
    return State(0, start, count, kind, "int8", (count, 4), b"")


def test_state_is_shared_out_between_prompt_and_answer():
    counts = ByteCounts()
    opened(counts, 10)
    counts.received(state(0, 8), 80)
    counts.received(state(8, 4), 40)
    counts.received(state(12, 1, "kv"), 7)
    assert counts.positions == {(PROMPT, "lsa"): 10, (ANSWER, "lsa"): 2, (PROMPT, "kv"): 0, (ANSWER, "kv"): 1}
    assert counts.state_per_position(PROMPT) == {"lsa": 10}
    assert counts.state_per_position(ANSWER) == {"lsa": 10, "kv": 7}


def test_every_frame_has_its_place():
    counts = ByteCounts()
    opened(counts, 3)
    counts.sent(Grow(0, 3, ()), 9)
    counts.sent(Ack(0, 4), 5)
    counts.sent(StateAck(1), 4)
    counts.received(Commit(0, 3, (7,)), 6)
    assert counts.up == {PROMPT: 50, NODES: 9, OTHER: 9}
    assert counts.down == {TOKENS: 6}


class Stream:
    def __init__(self):
        self.traffic = Traffic()
        self.closed = False

    def send(self, message):
        self.traffic = Traffic(11, 0)

    async def receive(self):
        if self.traffic.down:
            return None
        self.traffic = Traffic(11, 13)
        return Commit(0, 0, (1,))

    def close(self):
        self.closed = True


class Connection:
    def __init__(self):
        self.stream = Stream()

    def generate(self, on_close, session):
        return self.stream


async def test_a_counted_stream_is_the_stream_it_counts():
    connection, counts = Connection(), ByteCounts()
    stream = MeteredConnection(connection, counts).generate()
    said = Grow(0, 0, ())
    stream.send(said)
    assert await stream.receive() == Commit(0, 0, (1,))
    assert await stream.receive() is None
    stream.close()
    assert stream.traffic == Traffic(11, 13)
    assert counts.up == {NODES: len(frame_from_client(said).SerializeToString()) + 5}
    assert counts.down == {TOKENS: 13}
    assert connection.stream.closed
