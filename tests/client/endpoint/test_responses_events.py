"""Events as OpenAI's own types read them."""

from itertools import count

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from client.endpoint.answer_parsers.pieces import ScoredToken, TextPiece, ToolCall
from client.endpoint.faults import Fault
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.responses_events import ResponseWriter
from client.endpoint.responses_requests import read_response
from common.protocol.sampling import Sampling

EVENT = TypeAdapter(ResponseStreamEvent)
BODY = {"model": "outrider", "input": "Hi", "instructions": "Be short."}
SCORED = ScoredToken(b"Hel", -1.0, ((b"Hel", -1.0),), 0)
PIECES = (
    TextPiece("I should ", is_reasoning=True),
    TextPiece("add.", is_reasoning=True),
    TextPiece("Hel", scored=(SCORED,)),
    TextPiece("lo"),
    ToolCall("call_1", "add", '{"a": 1}'),
    ToolCall("call_2", "look", "{}"),
    TextPiece("Done"),
)


def writer() -> ResponseWriter:
    numbers = count()
    request = read_response(BODY, Sampling(temperature=0.5, seed=1))
    return ResponseWriter(request, BODY, 3, 17, lambda prefix: f"{prefix}_{next(numbers)}")


def events_of(answer: FinishedAnswer) -> list[dict]:
    writes = writer()
    opening = list(writes.opening())
    middle = [event for piece in answer.pieces for event in writes.piece(piece)]
    return [*opening, *middle, *writes.closing(answer)]


def answer(reason: str = "stop", pieces=PIECES) -> FinishedAnswer:
    return FinishedAnswer(pieces, reason, 9)


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length"])
def test_events_are_openais_and_end_in_the_whole_response(reason):
    written = events_of(answer(reason))
    for event in written:
        EVENT.validate_python(event, strict=True)
    writes = writer()
    whole = writes.whole(answer(reason))
    Response.model_validate(whole, strict=True)
    assert whole == written[-1]["response"]
    status = "incomplete" if reason == "length" else "completed"
    assert whole["status"] == status
    assert whole["output"][-1]["status"] == status
    assert written[-1]["type"] == f"response.{status}"
    assert [item["type"] for item in whole["output"]] == [
        *("reasoning", "message", "function_call", "function_call", "message")
    ]
    assert whole["usage"]["total_tokens"] == 12


def test_events_are_numbered_and_name_their_items():
    written = events_of(answer())
    assert [event["sequence_number"] for event in written] == list(range(len(written)))
    output = written[-1]["response"]["output"]
    for event in written:
        if "item_id" in event:
            assert output[event["output_index"]]["id"] == event["item_id"]


def test_deltas_add_up_and_log_probabilities_come_with_them():
    written = events_of(answer())
    texts = [event["delta"] for event in written if event["type"] == "response.output_text.delta"]
    assert texts == ["Hel", "lo", "Done"]
    (told,) = (token for event in written for token in event.get("logprobs", ()) if event["type"].endswith("delta"))
    assert (told["token"], told["logprob"]) == ("Hel", -1.0)
    assert written[-1]["response"]["output"][1]["content"][0]["logprobs"] == [told]


def test_text_that_nobody_confirmed_is_marked():
    pieces = (TextPiece("Hel"), TextPiece("lo", unverified=True))
    written = events_of(FinishedAnswer(pieces, "length", 4, unverified=2))
    deltas = [event for event in written if event["type"] == "response.output_text.delta"]
    assert [event.get("outrider") for event in deltas] == [None, {"offline": True}]
    assert written[-1]["response"]["outrider"]["unconfirmed_tokens"] == 2


def test_an_answer_without_text_has_no_items():
    assert writer().whole(answer(pieces=()))["output"] == []


def test_a_response_that_breaks_off_says_why():
    writes = writer()
    list(writes.opening())
    list(writes.piece(TextPiece("Hel")))
    event = writes.failed(Fault(502, "the server went away"))
    EVENT.validate_python(event, strict=True)
    assert event["response"]["error"]["message"] == "the server went away"
