"""Reads the messages and tools of OpenAI's chat requests, into what chat templates expect. Pure.

A template wants a call's arguments as an object and a content that is text, where OpenAI's requests have JSON in a
string and null.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from client.endpoint.faults import wrong
from client.endpoint.parameters import json_object, text

Message = dict[str, Any]
Tool = dict[str, Any]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")


def messages(name: str, value: Any) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise wrong(name, "'messages' must be a list with at least one message")
    return tuple(_message(f"{name}[{index}]", message) for index, message in enumerate(value))


def tools(name: str, value: Any) -> tuple[Tool, ...]:
    """Descriptions of functions. Other kinds of tools are refused, and so are two functions of one name."""
    if not isinstance(value, list):
        raise wrong(name, f"'{name}' must be a list")
    read = tuple(_tool(f"{name}[{index}]", tool) for index, tool in enumerate(value))
    names = Counter(tool["function"]["name"] for tool in read)
    for repeated in (each for each, count in names.items() if count > 1):
        raise wrong(name, f"'{name}' has two functions called '{repeated}'; give each its own name")
    return read


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether functions may be called, whether one must be, and which one, empty for any."""

    may: bool = True
    must: bool = False
    function: str = ""


_TOOL_CHOICES = {"auto": ToolChoice(), "none": ToolChoice(may=False), "required": ToolChoice(must=True)}


def tool_choice(name: str, value: Any) -> ToolChoice:
    if isinstance(value, str) and value in _TOOL_CHOICES:
        return _TOOL_CHOICES[value]
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict) or value.get("type") != "function":
        raise wrong(
            name, f"'{name}' must be one of: {', '.join(_TOOL_CHOICES)}, or name a function", "unsupported_value"
        )
    return ToolChoice(must=True, function=text(f"{name}.function.name", function.get("name")))


def has_tools(message: Message) -> bool:
    """Whether it is part of a tool's use."""
    return message["role"] == "tool" or "tool_calls" in message


def _message(name: str, message: Any) -> Message:
    if not isinstance(message, dict) or "role" not in message:
        raise wrong(name, f"'{name}' must be an object with a role and a content")
    role = message["role"]
    if not isinstance(role, str) or role not in _ROLES:
        raise wrong(f"{name}.role", f"'{name}.role' must be one of: {', '.join(_ROLES)}", "unsupported_value")
    read: Message = {"role": _ROLES[role]}
    if role == "assistant":
        read |= _answer(name, message)
    if role == "tool":
        read |= _result(name, message)
    is_call = "tool_calls" in read
    content = message.get("content")
    return {**read, "content": "" if is_call and content is None else _content(f"{name}.content", content)}


def _answer(name: str, message: dict[str, Any]) -> Message:
    """What an assistant's message has beside its content."""
    read: Message = {}
    reasoning = message.get("reasoning_content", message.get("reasoning"))
    if isinstance(reasoning, str):
        read["reasoning_content"] = text(f"{name}.reasoning_content", reasoning)
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise wrong(f"{name}.tool_calls", f"'{name}.tool_calls' must be a list")
        read["tool_calls"] = [_call(f"{name}.tool_calls[{index}]", call) for index, call in enumerate(calls)]
    return read


def _result(name: str, message: dict[str, Any]) -> Message:
    """What a tool's message has beside its content."""
    read = {"tool_call_id": text(f"{name}.tool_call_id", message.get("tool_call_id"))}
    if message.get("name") is not None:
        read["name"] = text(f"{name}.name", message["name"])
    return read


def _call(name: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise wrong(name, f"'{name}' must be an object with an id and a function")
    made_of = {"name": text(f"{name}.function.name", function.get("name"))}
    arguments = _arguments(f"{name}.function.arguments", function.get("arguments"))
    return {
        "id": text(f"{name}.id", call.get("id")),
        "type": "function",
        "function": {**made_of, "arguments": arguments},
    }


def _arguments(name: str, value: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(text(name, value) or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise wrong(name, f"'{name}' must be a JSON object in a string")
    return json_object(name, arguments)


def _content(name: str, content: Any) -> str:
    if not isinstance(content, list):
        return text(name, content)
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or "text" not in part:
            raise wrong(name, f"'{name}' may hold text alone", "unsupported_value")
    return "".join(text(name, part["text"]) for part in content)


def _tool(name: str, tool: Any) -> Tool:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise wrong(name, f"'{name}' must be of the type 'function'", "unsupported_value")
    function = json_object(f"{name}.function", tool.get("function"))
    if not isinstance(function.get("name"), str) or not _FUNCTION_NAME.fullmatch(function["name"]):
        raise wrong(
            f"{name}.function.name",
            f"'{name}.function.name' must have 1 to 128 letters, digits, underscores, points or dashes",
        )
    for part, kind in (("description", str), ("parameters", dict)):
        if not isinstance(function.get(part), kind | None):
            raise wrong(f"{name}.function.{part}", f"'{name}.function.{part}' is of the wrong type")
    # `strict` is how a provider makes calls, and nothing that a model is to read.
    shown = {part: value for part, value in function.items() if part != "strict" and value is not None}
    return {"type": "function", "function": shown}


def strict_functions(value: Any) -> frozenset[str]:
    """Names of functions whose arguments are to follow their schemas in any case; of a value that `tools` has read."""
    return frozenset(tool["function"]["name"] for tool in value or () if tool["function"].get("strict") is True)
