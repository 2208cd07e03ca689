"""Ollama's own Python client, on the paths of its API."""

from typing import Any

from ollama import Client

NEEDS = "ollama"

_ASKED = [{"role": "user", "content": "Write a Python function that doubles a number."}]
_FEW = {"num_predict": 60}
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def _client(url: str) -> Any:
    return Client(host=url.removesuffix("/v1"))


def _chat(url: str) -> str:
    return str(_client(url).chat("outrider", _ASKED, options=_FEW).message.content)


def _streamed(url: str) -> str:
    return "".join(part.message.content for part in _client(url).chat("outrider", _ASKED, options=_FEW, stream=True))


def _generate(url: str) -> str:
    return str(_client(url).generate("outrider", _ASKED[0]["content"], options=_FEW).response)


def _list(url: str) -> str:
    return ", ".join(model.model for model in _client(url).list().models)


def _schema(url: str) -> str:
    return str(_client(url).chat("outrider", _ASKED, format=_SCHEMA, options={"num_predict": 200}).message.content)


TEXT = {"chat": _chat, "chat, stream": _streamed, "generate": _generate, "list": _list}
DATA = {"chat, format": _schema}
