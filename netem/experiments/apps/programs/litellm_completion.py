"""LiteLLM with its defaults: plain, streamed, with tools and with a schema."""

from typing import Any

import litellm
from pydantic import BaseModel, Field

NEEDS = "litellm"

_ASKED = [{"role": "user", "content": "Write a Python function that doubles a number."}]
_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}
_TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": _PARAMETERS}}]


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


def _ask(url: str, **more: Any) -> Any:
    return litellm.completion("openai/outrider", _ASKED, base_url=url, api_key="none", max_tokens=100, **more)


def _streamed(url: str) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in _ask(url, stream=True))


def _tools(url: str) -> str:
    call = _ask(url, tools=_TOOLS, tool_choice="required").choices[0].message.tool_calls[0]
    return f"{call.function.name}({call.function.arguments})"


def _tools_streamed(url: str) -> str:
    chunks = list(_ask(url, tools=_TOOLS, tool_choice="required", stream=True))
    call = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls[0]
    return f"{call.function.name}({call.function.arguments})"


def _schema(url: str) -> str:
    return str(Person.model_validate_json(_ask(url, response_format=Person).choices[0].message.content))


TEXT = {"completion": lambda url: _ask(url).choices[0].message.content, "completion, stream": _streamed}
DATA = {"tools": _tools, "tools, stream": _tools_streamed, "response_format": _schema}
