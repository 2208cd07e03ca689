"""The bytes that a client sends: a TCP proxy that keeps everything that goes up, and a reader of those bytes.

Knows HTTP/2's frames and gRPC's message prefix, and none of our counters.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from common.address import Address, parse_address
from common.protocol.messages import FromClient
from common.rpc.convert import message_from_client

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS = 0, 1
_PADDED = 8


class Wiretap:
    """Listens at `address` until it is closed, and forwards everything."""

    def __init__(self, server: str):
        self._server = parse_address(server)
        self._up: list[bytearray] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = str(Address("127.0.0.1", self._listener.getsockname()[1]))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def connections(self) -> list[bytes]:
        """The bytes that went up on each connection so far."""
        return [bytes(up) for up in self._up]

    @property
    def everything(self) -> bytes:
        return b"".join(self.connections)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # closing alone would leave the thread in accept
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._server.host, self._server.port))
                kept = bytearray()
                self._up.append(kept)
                for source, sink, keep in ((client, server, kept), (server, client, None)):
                    threading.Thread(target=_pump, args=(source, sink, keep), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, keep: bytearray | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if keep is not None:
                keep += data
            sink.sendall(data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def tapped(server: str) -> Iterator[Wiretap]:
    tap = Wiretap(server)
    try:
        yield tap
    finally:
        tap.close()


@dataclass(frozen=True)
class Said:
    """One `Generate` stream: its messages, and the header block that began it."""

    headers: bytes
    messages: list[FromClient]


def generated(tap: Wiretap) -> list[Said]:
    """Every `Generate` stream in the order in which they began, connection by connection. Nothing else may have been
    sent but a request for the server's description."""
    return [said for connection in tap.connections for said in _streams(connection)]


def _streams(sent: bytes) -> Iterator[Said]:
    headers: dict[int, bytes] = {}
    data: dict[int, bytes] = {}
    for kind, flags, stream, payload in _frames(sent):
        if kind == _HEADERS:
            headers.setdefault(stream, payload)
        elif kind == _DATA:
            assert not flags & _PADDED
            data[stream] = data.get(stream, b"") + payload
    for stream, content in data.items():
        messages = list(_messages(content))
        if messages != [b""]:  # which asks a server to describe itself
            yield Said(headers[stream], [message_from_client(each) for each in messages])


def _frames(sent: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    if not sent:
        return
    assert sent.startswith(_PREFACE)
    at = len(_PREFACE)
    while at + 9 <= len(sent):
        high, low, kind, flags, stream = struct.unpack(">BHBBI", sent[at : at + 9])
        size = high << 16 | low
        yield kind, flags, stream, sent[at + 9 : at + 9 + size]
        at += 9 + size


def _messages(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        compressed, size = struct.unpack(">BI", content[at : at + 5])
        assert not compressed
        yield content[at + 5 : at + 5 + size]
        at += 5 + size
