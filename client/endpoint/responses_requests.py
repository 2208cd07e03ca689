"""Reads the bodies of OpenAI's `/v1/responses`. Pure: JSON values in, the request that a chat would be, or a fault.

A body is rewritten as the chat request that asks for the same, so that both have the same meanings, limits and faults;
faults name the parameter of the body. It may not know tokenizers, sessions or HTTP.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from client.endpoint import parameters, structured
from client.endpoint.faults import FaultError, wrong
from client.endpoint.openai_requests import CompletionRequest, read_chat
from common.protocol.sampling import Sampling

_AS_IN_CHATS = frozenset(
    (
        *("model", "stream", "parallel_tool_calls", "stop", "chat_template_kwargs"),
        *(structured.READERS.keys() - {"response_format"}),  # which is 'text.format' here
        *("temperature", "top_p", "top_k", "min_p", "seed"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias"),
        *("metadata", "prompt_cache_key", "safety_identifier", "service_tier", "user"),
    )
)
_REWRITTEN = frozenset(
    (
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "max_output_tokens",
        "include",
        "top_logprobs",
    )
)
_ASK_FOR_NOTHING: Mapping[str, Any] = {"background": False, "store": False, "truncation": "disabled"}
_LOGPROBS = "message.output_text.logprobs"
_KEEPS_NOTHING = "no response is kept here; leave it out and send all earlier items in 'input'"
_UNSUPPORTED = {
    "previous_response_id": _KEEPS_NOTHING,
    "conversation": _KEEPS_NOTHING,
    "prompt": "no prompts are kept here; send the text in 'input'",
    "background": "a response is answered at once here; leave it out",
}

_NAMES = {
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "top_logprobs",
    "messages": "input",
}
"""Names of a chat's parameters in faults, and those that the body has."""


def read_response(body: Any, defaults: Sampling, *, strict: bool = False) -> CompletionRequest:
    """Raises FaultError as `read_chat` does."""
    if not isinstance(body, dict):
        raise wrong(None, "the body must be a JSON object")
    given = {name: value for name, value in body.items() if value is not None}
    for name in given.keys() & _UNSUPPORTED.keys():
        if given[name] != _ASK_FOR_NOTHING.get(name):
            raise wrong(name, f"'{name}' is not supported: {_UNSUPPORTED[name]}", "unsupported_parameter")
    if "input" not in given:
        raise wrong("input", "'input' is missing", "missing_required_parameter")
    _check_metadata(given)
    messages, origins = _messages(given)
    chat_request = {name: value for name, value in given.items() if name in _AS_IN_CHATS}
    chat_request |= {"messages": messages, **_form(given), **_reasoning(given), **_tools(given), **_logprobs(given)}
    if "max_output_tokens" in given:
        chat_request["max_completion_tokens"] = given["max_output_tokens"]
    try:
        request = read_chat(chat_request, defaults, strict=strict)
    except FaultError as error:
        raise in_words_of_responses(error, origins) from error
    ignored = (*(our_name(name, origins) for name in request.ignored), *_ignored(given))
    if strict and ignored:
        raise wrong(ignored[0], f"'{ignored[0]}' has no effect here; leave it out", "unsupported_parameter")
    return replace(request, ignored=ignored)


def in_words_of_responses(error: FaultError, origins: Sequence[str] = ()) -> FaultError:
    """A chat's fault, as one of the body of a response; `origins` name the part that each message comes from."""
    fault = error.fault
    if fault.parameter is None:
        return error
    message = fault.message
    for name in filter(None, (fault.parameter, fault.also)):  # other quoted words may be anybody's
        message = message.replace(f"'{name}'", f"'{our_name(name, origins)}'")
    return FaultError(replace(fault, message=message, parameter=our_name(fault.parameter, origins)))


def our_name(name: str, origins: Sequence[str] = ()) -> str:
    """The body's name of a chat's parameter."""
    message = re.match(r"messages\[(\d+)\]", name)
    if message and int(message[1]) < len(origins):
        return origins[int(message[1])] + name[message.end() :]
    tool = re.match(r"(tools\[\d+\])\.function", name)
    if tool:
        return tool[1] + name[tool.end() :]
    for chat, ours in _NAMES.items():
        if name == chat or name.startswith(f"{chat}."):
            return ours + name[len(chat) :]
    return name


def _ignored(given: Mapping[str, Any]) -> list[str]:
    """Names of what is asked for and not done."""
    known = _AS_IN_CHATS | _REWRITTEN | _UNSUPPORTED.keys()
    names = [name for name in given if name not in known and given[name] != _ASK_FOR_NOTHING.get(name)]
    names += [f"include[{each}]" for each in given.get("include", ()) if each != _LOGPROBS]
    for name, done in (("text", "format"), ("reasoning", "effort")):
        names += [f"{name}.{part}" for part, value in given.get(name, {}).items() if part != done and value is not None]
    return names


def _check_metadata(given: Mapping[str, Any]) -> None:
    """Raises FaultError for what a response could not repeat."""
    metadata = parameters.json_object("metadata", given.get("metadata", {}))
    if not all(isinstance(value, str) for value in metadata.values()):
        raise wrong("metadata", "'metadata' must map strings to strings")


def _messages(given: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """The messages of a chat, and the part of the body that each comes from."""
    messages: list[dict[str, Any]] = []
    origins: list[str] = []
    if "instructions" in given:
        messages.append({"role": "system", "content": parameters.text("instructions", given["instructions"])})
        origins.append("instructions")
    items = given["input"]
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}], [*origins, "input"]
    if not isinstance(items, list) or not items:
        raise wrong("input", "'input' must be a text, or a list with at least one item")
    answer: dict[str, Any] | None = None  # that the next item may be a part of
    for index, item in enumerate(items):
        name = f"input[{index}]"
        read = _item(name, item)
        if answer is not None and read["role"] == "assistant" and _belong_together(answer, read):
            _join(answer, read)
            continue
        answer = read if read["role"] == "assistant" else None
        messages.append(read)
        origins.append(name)
    kept = [index for index, message in enumerate(messages) if not _is_reasoning_alone(message)]
    return [messages[index] for index in kept], [origins[index] for index in kept]


def _belong_together(answer: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
    """Whether an item goes on with a message; reasoning precedes what it is about."""
    if _is_reasoning_alone(more):
        return _is_reasoning_alone(answer)
    return not (answer["content"] and more["content"])


def _is_reasoning_alone(message: Mapping[str, Any]) -> bool:
    """As of an answer that was cut in its thought, which no chat has."""
    return "reasoning_content" in message and message["content"] is None and "tool_calls" not in message


def _join(answer: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Reasoning, text and calls are items of their own here, and one message in a chat."""
    answer["content"] = answer["content"] or more["content"]
    if "reasoning_content" in more:
        answer["reasoning_content"] = answer.get("reasoning_content", "") + more["reasoning_content"]
    if "tool_calls" in more:
        answer.setdefault("tool_calls", []).extend(more["tool_calls"])


def _item(name: str, item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise wrong(name, f"'{name}' must be an object")
    match item.get("type", "message"):
        case "message":
            return {"role": item.get("role"), "content": _content(f"{name}.content", item.get("content"))}
        case "reasoning":
            parts = item.get("content") or item.get("summary") or []
            return {"role": "assistant", "content": None, "reasoning_content": _content(f"{name}.content", parts)}
        case "function_call":
            function = {part: item.get(part) for part in ("name", "arguments")}
            call = {"id": parameters.text(f"{name}.call_id", item.get("call_id")), "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            called = parameters.text(f"{name}.call_id", item.get("call_id"))
            return {"role": "tool", "tool_call_id": called, "content": _content(f"{name}.output", item.get("output"))}
    raise wrong(
        f"{name}.type",
        f"'{name}.type' must be one of: message, reasoning, function_call, function_call_output",
        "unsupported_value",
    )


def _content(name: str, content: Any) -> str:
    if not isinstance(content, list):
        return parameters.text(name, content)
    texts = [part.get("text", part.get("refusal")) if isinstance(part, dict) else None for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise wrong(name, f"'{name}' may hold text alone", "unsupported_value")
    return "".join(parameters.text(name, text) for text in texts)


def _form(given: Mapping[str, Any]) -> dict[str, Any]:
    form = parameters.json_object("text", given.get("text", {})).get("format")
    if form is None:
        return {}
    if parameters.json_object("text.format", form).get("type") != "json_schema":
        return {"response_format": form}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _reasoning(given: Mapping[str, Any]) -> dict[str, Any]:
    effort = parameters.json_object("reasoning", given.get("reasoning", {})).get("effort")
    return {} if effort is None else {"reasoning_effort": effort}


def _tools(given: Mapping[str, Any]) -> dict[str, Any]:
    chat_request: dict[str, Any] = {}
    if "tools" in given:
        tools = given["tools"]
        chat_request["tools"] = [_tool(each) for each in tools] if isinstance(tools, list) else tools
    if "tool_choice" in given:
        choice = given["tool_choice"]
        is_named = isinstance(choice, dict) and choice.get("type") == "function"
        if is_named:
            parameters.json_object("tool_choice", choice)  # all of it is repeated in the response
        chat_request["tool_choice"] = (
            {"type": "function", "function": {"name": choice.get("name")}} if is_named else choice
        )
    return chat_request


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return tool
    return {"type": "function", "function": {part: value for part, value in tool.items() if part != "type"}}


def _logprobs(given: Mapping[str, Any]) -> dict[str, Any]:
    include = given.get("include", [])
    if not isinstance(include, list) or not all(isinstance(each, str) for each in include):
        raise wrong("include", "'include' must be a list of strings")
    if "top_logprobs" not in given and _LOGPROBS not in include:
        return {}
    return {"logprobs": True, "top_logprobs": given.get("top_logprobs", 0)}
