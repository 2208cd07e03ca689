"""Reads the bodies of OpenAI's chat and completion requests.

Pure: JSON values in, frozen data out, or a fault that names the parameter. It may not know tokenizers, sessions
or HTTP.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from client.endpoint.faults import wrong
from common.protocol.sampling import Sampling

_SEEDS = 1 << 64
_COMPLETION_TOKENS = 16  # OpenAI's own default

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

_IGNORED = frozenset(
    ("metadata", "parallel_tool_calls", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user")
)
"""Parameters without any influence on the answer."""

_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
"""Unsupported parameters, and the values of each that ask for nothing."""


class RequestKind(StrEnum):
    CHAT = "chat"
    COMPLETION = "completion"


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One of `messages`, `text` and `tokens` is the prompt; `max_new_tokens` is None for all that the context has
    room for."""

    kind: RequestKind
    model: str
    sampling: Sampling
    messages: tuple[dict[str, str], ...] = ()
    text: str = ""
    tokens: tuple[int, ...] = ()
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False


def read_chat(body: Any, defaults: Sampling) -> CompletionRequest:
    """Raises FaultError for what is no chat request, or asks for something unsupported."""
    fields = _fields(body, _CHAT)
    limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
    request = _common(RequestKind.CHAT, fields, defaults, limit)
    return replace(request, messages=fields["messages"])


def read_completion(body: Any, defaults: Sampling) -> CompletionRequest:
    """As `read_chat`, for plain text."""
    fields = _fields(body, _COMPLETION)
    request = _common(RequestKind.COMPLETION, fields, defaults, fields.get("max_tokens", _COMPLETION_TOKENS))
    prompt = fields["prompt"]
    return replace(request, text=prompt) if isinstance(prompt, str) else replace(request, tokens=prompt)


def _common(kind: RequestKind, fields: Mapping[str, Any], defaults: Sampling, limit: int | None) -> CompletionRequest:
    drawn = {name: fields[name] for name in _SAMPLING if name in fields}
    return CompletionRequest(
        kind,
        fields["model"],
        replace(defaults, **drawn),
        max_new_tokens=limit,
        stop=fields.get("stop", ()),
        stream=fields.get("stream", False),
        include_usage=fields.get("stream_options", False),
    )


Reader = Callable[[str, Any], Any]
"""Reads a parameter's JSON value. Raises FaultError if it is not of the parameter's type."""


@dataclass(frozen=True, slots=True)
class _ParameterTable:
    """The parameters of a kind of request that are read, and those that must be there."""

    readers: Mapping[str, Reader]
    required: Sequence[str]


def _fields(body: Any, form: _ParameterTable) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise wrong(None, "the body must be a JSON object")
    given = {name: value for name, value in body.items() if value is not None}
    for name in form.required:
        if name not in given:
            raise wrong(name, f"'{name}' is missing", "missing_required_parameter")
    fields = {}
    for name, value in given.items():
        if name in form.readers:
            fields[name] = form.readers[name](name, value)
        elif name in _HARMLESS:
            if value not in _HARMLESS[name]:
                raise wrong(name, f"'{name}' is not supported here; leave it out", "unsupported_parameter")
        elif name not in _IGNORED:
            raise wrong(name, f"the parameter '{name}' is not known here; leave it out", "unsupported_parameter")
    return fields


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(name, f"'{name}' must be a string")
    try:
        value.encode()
    except UnicodeError:
        raise wrong(name, f"'{name}' is not valid text: it has half a surrogate pair") from None
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, f"'{name}' must be true or false")
    return value


def _whole(least: int) -> Reader:
    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least or value >= 1 << 31:
            raise wrong(name, f"'{name}' must be a whole number, at least {least}")
        return value

    return read


def _number(least: float, most: float) -> Reader:
    def read(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and math.isfinite(value) and least <= value <= most):
            raise wrong(name, f"'{name}' must be a number from {least:g} to {most:g}")
        return float(value)

    return read


def _seed(name: str, value: Any) -> int:
    """OpenAI's seeds may be negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(_SEEDS // 2) <= value < _SEEDS:
        raise wrong(name, "'seed' must be a whole number of 64 bits")
    return value % _SEEDS


def _stop(name: str, value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list):
        raise wrong(name, "'stop' must be a string or a list of strings")
    return tuple(_text(name, each) for each in stops)


def _stream_options(name: str, value: Any) -> bool:
    """Whether usage is wanted."""
    if not isinstance(value, dict):
        raise wrong(name, "'stream_options' must be an object")
    unknown = set(value) - {"include_usage", "include_obfuscation"}
    if unknown:
        raise wrong(name, f"'stream_options' has no '{min(unknown)}' here; leave it out", "unsupported_parameter")
    return _flag("stream_options.include_usage", value.get("include_usage", False))


def _messages(name: str, value: Any) -> tuple[dict[str, str], ...]:
    if not isinstance(value, list) or not value:
        raise wrong(name, "'messages' must be a list with at least one message")
    return tuple(_message(f"{name}[{index}]", message) for index, message in enumerate(value))


def _message(name: str, message: Any) -> dict[str, str]:
    if not isinstance(message, dict) or "role" not in message:
        raise wrong(name, f"'{name}' must be an object with a role and a content")
    role = message["role"]
    if not isinstance(role, str) or role not in _ROLES:
        raise wrong(f"{name}.role", f"'{name}.role' must be one of: {', '.join(_ROLES)}", "unsupported_value")
    return {"role": _ROLES[role], "content": _content(f"{name}.content", message.get("content"))}


def _content(name: str, content: Any) -> str:
    if not isinstance(content, list):
        return _text(name, content)
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or "text" not in part:
            raise wrong(name, f"'{name}' may hold text alone", "unsupported_value")
    return "".join(_text(name, part["text"]) for part in content)


def _prompt(name: str, value: Any) -> str | tuple[int, ...]:
    """A text, or its tokens; a list of one of either is that."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return _text(name, value)
    if not isinstance(value, list) or not value or not all(_is_token(each) for each in value):
        raise wrong(name, "'prompt' must be one text or one list of tokens")
    return tuple(value)


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_SAMPLING: Mapping[str, Reader] = {
    "temperature": _number(0, 100),
    "top_p": _number(0, 1),
    "min_p": _number(0, 1),
    "top_k": _whole(0),
    "repetition_penalty": _number(0, 100),
    "seed": _seed,
}
_SHARED: Mapping[str, Reader] = {
    "model": _text,
    "stop": _stop,
    "stream": _flag,
    "stream_options": _stream_options,
    "max_tokens": _whole(1),
    **_SAMPLING,
}
_CHAT = _ParameterTable({**_SHARED, "messages": _messages, "max_completion_tokens": _whole(1)}, ("model", "messages"))
_COMPLETION = _ParameterTable({**_SHARED, "prompt": _prompt}, ("model", "prompt"))
