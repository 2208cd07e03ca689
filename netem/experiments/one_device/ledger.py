"""Counts what crosses a session's stream, frame by frame: which way, of which kind, for the prompt or the answer.

Stands between a client and its connection. It may not know drafts, models or tables.
"""

from collections import Counter
from dataclasses import dataclass, field

from common.protocol.messages import FromClient, FromServer, Grow, Open, State
from common.rpc.stub import Connection, GenerateStream

PROMPT, ANSWER = "prompt", "answer"
NODES, TOKENS, OTHER = "nodes", "tokens", "acknowledgements"


@dataclass
class Ledger:
    """Bytes of serialised frames with gRPC's message prefix, and the positions whose state came, by part and kind."""

    state_bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    positions: Counter[tuple[str, str]] = field(default_factory=Counter)
    up: Counter[str] = field(default_factory=Counter)
    down: Counter[str] = field(default_factory=Counter)
    prompt_length: int = 0

    def sent(self, message: FromClient, size: int) -> None:
        match message:
            case Open():
                self.prompt_length = message.prompt_length
                self.up[PROMPT] += size
            case Grow():
                self.up[NODES] += size
            case _:
                self.up[OTHER] += size

    def received(self, message: FromServer, size: int) -> None:
        if not isinstance(message, State):
            self.down[TOKENS] += size
            return
        end = message.start + message.count
        ahead = max(0, min(end, self.prompt_length) - message.start)
        for part, count in ((PROMPT, ahead), (ANSWER, message.count - ahead)):
            self.positions[part, message.kind] += count
            # A frame has no seam between the two, so its bytes are shared out by positions.
            self.state_bytes[part, message.kind] += round(size * count / message.count)

    def state_per_position(self, part: str) -> dict[str, float]:
        """By kind."""
        counted = {kind: count for (where, kind), count in self.positions.items() if where == part and count}
        return {kind: self.state_bytes[part, kind] / count for kind, count in counted.items()}


class CountedConnection:
    """A connection whose streams are entered in a ledger."""

    def __init__(self, connection: Connection, ledger: Ledger):
        self._connection = connection
        self._ledger = ledger

    def generate(self) -> "CountedStream":
        return CountedStream(self._connection.generate(), self._ledger)


class CountedStream:
    def __init__(self, stream: GenerateStream, ledger: Ledger):
        self._stream = stream
        self._ledger = ledger

    @property
    def bytes_up(self) -> int:
        return self._stream.bytes_up

    @property
    def bytes_down(self) -> int:
        return self._stream.bytes_down

    async def send(self, message: FromClient) -> None:
        before = self._stream.bytes_up
        await self._stream.send(message)
        self._ledger.sent(message, self._stream.bytes_up - before)

    async def receive(self) -> FromServer | None:
        before = self._stream.bytes_down
        message = await self._stream.receive()
        if message is not None:
            self._ledger.received(message, self._stream.bytes_down - before)
        return message

    def close(self) -> None:
        self._stream.close()
