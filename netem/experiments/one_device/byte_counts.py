"""Counts the bytes of a session's stream by direction, kind of frame, and whether they belong to the prompt or the
answer.

It wraps a client's connection. It may not know draft models or tables.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from common.protocol.messages import FromClient, FromServer, Grow, Open, State
from common.rpc.convert import frame_from_client
from common.rpc.stub import PREFIX_BYTES, Connection, GenerateStream
from common.rpc.traffic import Traffic

PROMPT, ANSWER = "prompt", "answer"
NODES, TOKENS, OTHER = "nodes", "tokens", "acknowledgements"


@dataclass
class ByteCounts:
    """Bytes of serialised frames with gRPC's message prefix.

    state_bytes, positions: draft state and the positions that it is for, by (PROMPT or ANSWER, kind of state).
    up, down: all other bytes by kind of frame.
    """

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
            # A frame may hold positions of both, so its bytes are divided in proportion.
            self.state_bytes[part, message.kind] += round(size * count / message.count)

    def state_per_position(self, part: str) -> dict[str, float]:
        """Bytes of draft state for each position that got it, by kind. part: PROMPT or ANSWER."""
        counted = {kind: count for (where, kind), count in self.positions.items() if where == part and count}
        return {kind: self.state_bytes[part, kind] / count for kind, count in counted.items()}


class MeteredConnection:
    """A connection whose streams are counted."""

    def __init__(self, connection: Connection, counts: ByteCounts):
        self._connection = connection
        self._counts = counts

    def generate(
        self, on_close: Callable[[], Awaitable[None]] | None = None, session: str | None = None
    ) -> "CountedStream":
        return CountedStream(self._connection.generate(on_close, session), self._counts)


class CountedStream:
    def __init__(self, stream: GenerateStream, counts: ByteCounts):
        self._stream = stream
        self._counts = counts

    @property
    def traffic(self) -> Traffic:
        return self._stream.traffic

    def send(self, message: FromClient) -> None:
        self._counts.sent(message, frame_from_client(message).ByteSize() + PREFIX_BYTES)
        self._stream.send(message)

    async def receive(self) -> FromServer | None:
        before = self.traffic.down
        message = await self._stream.receive()
        if message is not None:
            self._counts.received(message, self.traffic.down - before)
        return message

    def close(self) -> None:
        self._stream.close()
