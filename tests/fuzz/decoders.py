"""The wire decoders in both directions: bytes that are no frame, frames that are no message, and messages that must
survive encoding."""

from random import Random
from typing import Any

from google.protobuf.message import DecodeError

from common.protocol.client_session import ClientSession, Limits
from common.protocol.errors import PeerError
from common.protocol.messages import Settings
from common.rpc import convert
from common.rpc.generated.outrider.v1 import outrider_pb2 as pb
from tests.fuzz.client_frames import ClientView, client_frame
from tests.fuzz.harness import FaultError, check_sentence
from tests.fuzz.mutation import FuzzedFrame, Mutator
from tests.fuzz.server_frames import WANTED, server_frame

_FROM_CLIENT, _FROM_SERVER = b"<", b">"
_SMALL = 2000  # bytes of a frame that is also encoded again


def _of_server(data: bytes) -> Any:
    return convert.message_from_server(pb.ServerFrame.FromString(data))


def _to_server(message: Any) -> bytes:
    return convert.frame_from_client(message).SerializeToString()


def _to_client(message: Any) -> bytes:
    return convert.frame_from_server(message).SerializeToString()


class Decoders:
    """A frame's first byte says which end sent it."""

    def __init__(self, rng: Random):
        self._talk = ClientView("a session of a client", "f", 50, 400, "thoughts")
        self._session = ClientSession("a session of a client", Limits("f", 50, 400, 64), WANTED)
        self._session.open((1, 2, 3), Settings(40))
        self._mutate = Mutator()

    def frame(self, rng: Random) -> FuzzedFrame:
        speaker = rng.choice((_FROM_CLIENT, _FROM_SERVER))
        is_client = speaker == _FROM_CLIENT
        frame = client_frame(self._talk, rng) if is_client else server_frame(self._session, 50, rng)
        fuzzed = self._mutate(frame, rng)
        return fuzzed._replace(data=speaker + fuzzed.data)

    def take(self, data: bytes) -> str:
        speaker, data = data[:1], data[1:]
        decode, encode = (
            (convert.message_from_client, _to_server) if speaker == _FROM_CLIENT else (_of_server, _to_client)
        )
        try:
            message = decode(data)
        except DecodeError:
            return "undecodable"
        except PeerError as error:
            check_sentence(error)
            return "refused"
        # Compared by their encoding: with `==`, NaN never equals itself.
        if len(data) < _SMALL and repr(decode(encode(message))) != repr(message):
            raise FaultError("a message is another one after it was sent on")
        return "decoded"

    def end(self) -> None:
        """Nothing is held between frames."""
