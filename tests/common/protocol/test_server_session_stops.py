"""Stop strings of an answer that begins with a blank, which decoders strip at the start of a text."""

from common.protocol.messages import Finished, FinishReason, Settings
from common.protocol.server_session import ServerSession
from tests.common.protocol.fakes import detokenise, terms
from tests.common.protocol.test_server_session import open_frame, run_pass

STOP = Settings(5, stop=(" b",))


def stripping(tokens):
    """Token 1 is a blank, which is stripped where it is the first."""
    return detokenise(tokens).replace("a", " ").removeprefix(" ")


def test_a_stop_string_that_begins_with_the_answer_ends_it():
    server = ServerSession(open_frame(settings=STOP), terms(detokenise=stripping), 0.0)
    assert run_pass(server, [1, 5, 5]).replies[-1] != Finished(0, 4, FinishReason.END)
    assert run_pass(server, [2, 5, 5]).replies[-1] == Finished(0, 5, FinishReason.END)


def test_a_rebuilt_session_sees_that_its_answer_is_over():
    server = ServerSession(open_frame((1, 2, 3, 1, 2), 3, settings=STOP), terms(detokenise=stripping), 0.0)
    assert server.opening_replies()[-1] == Finished(0, 5, FinishReason.END)
