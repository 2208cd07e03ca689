"""OpenAI's own client: plain and streamed chats, and its helpers that parse, stream and make responses."""

from contextlib import suppress
from typing import Any

from openai import LengthFinishReasonError, OpenAI
from pydantic import BaseModel, Field

NEEDS = "openai"

_TOO_LONG = LengthFinishReasonError
"""What the client's helper makes of an answer that was cut, as one of the draft model's is that repeats itself."""

_ASKED: list[Any] = [{"role": "user", "content": "Write a Python function that doubles a number."}]
_CITY: list[Any] = [{"role": "user", "content": "What is the weather in Porto?"}]
_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
_WEATHER = {"name": "weather", "description": "Tells the weather.", "parameters": _PARAMETERS}
_TOOLS: list[Any] = [{"type": "function", "function": _WEATHER}]


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


def _chat(url: str) -> Any:
    return OpenAI(base_url=url, api_key="none").chat.completions


def _create(url: str) -> str:
    return str(_chat(url).create(model="outrider", messages=_ASKED, max_tokens=300).choices[0].message.content)


def _streamed(url: str) -> str:
    chunks = _chat(url).create(model="outrider", messages=_ASKED, max_tokens=300, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _stream_helper(url: str) -> str:
    pieces = []
    with _chat(url).stream(model="outrider", messages=_ASKED, max_tokens=300) as stream, suppress(_TOO_LONG):
        for event in stream:
            if event.type == "content.delta":
                pieces.append(event.delta)
        assert "".join(pieces) == stream.get_final_completion().choices[0].message.content
    return "".join(pieces)


def _parse(url: str) -> str:
    answer = _chat(url).parse(model="outrider", messages=_ASKED, response_format=Person, max_tokens=300)
    return str(answer.choices[0].message.parsed.model_dump())


def _parse_stream(url: str) -> str:
    with _chat(url).stream(model="outrider", messages=_ASKED, response_format=Person, max_tokens=300) as stream:
        for _ in stream:
            pass
    return str(stream.get_final_completion().choices[0].message.parsed.model_dump())


def _tool(url: str) -> str:
    answer = _chat(url).create(
        model="outrider", messages=_CITY, tools=_TOOLS, tool_choice="required", parallel_tool_calls=False
    )
    call = answer.choices[0].message.tool_calls[0]
    history = [
        *_CITY,
        answer.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    then = _chat(url).create(model="outrider", messages=history, tools=_TOOLS, tool_choice="none", max_tokens=30)
    return f"{call.function.name}({call.function.arguments}) then {then.choices[0].message.content!r}"


def _response(url: str) -> str:
    client = OpenAI(base_url=url, api_key="none")
    return client.responses.create(model="outrider", input=_ASKED, max_output_tokens=300).output_text


def _response_stream(url: str) -> str:
    client = OpenAI(base_url=url, api_key="none")
    with client.responses.stream(model="outrider", input=_ASKED, max_output_tokens=300) as stream:
        events = list(stream)
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text
    return text


def _response_parse(url: str) -> str:
    client = OpenAI(base_url=url, api_key="none")
    answer = client.responses.parse(model="outrider", input=_ASKED, text_format=Person, max_output_tokens=300)
    return str(answer.output_parsed.model_dump())


TEXT = {
    "chat.completions.create": _create,
    "chat.completions.create, stream": _streamed,
    "chat.completions.stream": _stream_helper,
    "responses.create": _response,
    "responses.stream": _response_stream,
}
DATA = {
    "chat.completions.parse": _parse,
    "chat.completions.stream, response_format": _parse_stream,
    "tools, and their results": _tool,
    "responses.parse": _response_parse,
}
