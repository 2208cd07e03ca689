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
from netem.experiments.one_device.ledger import ANSWER, NODES, OTHER, PROMPT, TOKENS, CountedConnection, Ledger


def opened(ledger, prompt_length):
    message = Open(PROTOCOL_VERSION, "f", "s", 0, (1,) * prompt_length, prompt_length, Settings(8))
    ledger.sent(message, 50)


def state(start, count, kind="lsa"):
    return State(0, start, count, kind, "int8", (count, 4), b"")


def test_state_is_shared_out_between_prompt_and_answer():
    ledger = Ledger()
    opened(ledger, 10)
    ledger.received(state(0, 8), 80)
    ledger.received(state(8, 4), 40)
    ledger.received(state(12, 1, "kv"), 7)
    assert ledger.positions == {(PROMPT, "lsa"): 10, (ANSWER, "lsa"): 2, (PROMPT, "kv"): 0, (ANSWER, "kv"): 1}
    assert ledger.state_per_position(PROMPT) == {"lsa": 10}
    assert ledger.state_per_position(ANSWER) == {"lsa": 10, "kv": 7}


def test_every_frame_has_its_place():
    ledger = Ledger()
    opened(ledger, 3)
    ledger.sent(Grow(0, 3, ()), 9)
    ledger.sent(Ack(0, 4), 5)
    ledger.sent(StateAck(1), 4)
    ledger.received(Commit(0, 3, (7,)), 6)
    assert ledger.up == {PROMPT: 50, NODES: 9, OTHER: 9}
    assert ledger.down == {TOKENS: 6}


class Stream:
    def __init__(self):
        self.bytes_up = self.bytes_down = 0
        self.closed = False

    async def send(self, message):
        self.bytes_up += 11

    async def receive(self):
        if self.bytes_down:
            return None
        self.bytes_down += 13
        return Commit(0, 0, (1,))

    def close(self):
        self.closed = True


class Connection:
    def __init__(self):
        self.stream = Stream()

    def generate(self):
        return self.stream


async def test_a_counted_stream_is_the_stream_it_counts():
    connection, ledger = Connection(), Ledger()
    stream = CountedConnection(connection, ledger).generate()
    await stream.send(Grow(0, 0, ()))
    assert await stream.receive() == Commit(0, 0, (1,))
    assert await stream.receive() is None
    stream.close()
    assert (stream.bytes_up, stream.bytes_down) == (11, 13)
    assert ledger.up == {NODES: 11}
    assert ledger.down == {TOKENS: 13}
    assert connection.stream.closed
