"""Ollama's requests and responses, for `/api/chat` and `/api/generate`. Pure: JSON values in, the request that OpenAI's
form would be, and objects out.

An Ollama request is rewritten as the OpenAI request that asks for the same, so that both have the same meanings, limits
and faults. It may not know tokenizers, sessions or HTTP.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count, product
from typing import Any

from client.endpoint import parameters
from client.endpoint.answer_parsers.pieces import Piece, ToolCall
from client.endpoint.faults import FaultError, wrong
from client.endpoint.openai_requests import CompletionRequest, read_chat, read_completion
from client.endpoint.openai_responses import FinishedAnswer, extension
from common.protocol.sampling import Sampling

_LATEST = ":latest"
"""A tag that Ollama's clients may append to a model's name."""

_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "stop": "stop",
    "num_predict": "max_tokens",
}
"""Ollama's names of options, and OpenAI's. It ignores those that it does not know, so these are all that are read."""

_WHOLE = ("top_k", "seed", "num_predict")
"""Options of which Ollama drops what stands behind the point."""

_NAMES = {
    **{openai: f"options.{ollama}" for ollama, openai in _OPTIONS.items()},
    **dict.fromkeys(("response_format", "response_format.json_schema.schema"), "format"),
    "reasoning_effort": "think",
}
"""Names of OpenAI's parameters in faults, and those that the body has."""

_UNSUPPORTED = ("images", "suffix", "template", "context")

_NO_TIME = re.compile(r"0+(\.0*)?[a-z]*")
"""A duration of `keep_alive` after which a model is unloaded at once."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Asks for no text, but for the model to be loaded or unloaded: `reason` is Ollama's word for it."""

    model: str
    reason: str


def read_ollama_load(body: Any, *, is_chat: bool) -> LoadRequest | None:
    """None for a request for text. Raises FaultError as `read_ollama_chat` does."""
    fields = _fields(body)
    if (fields.get("messages", []) != []) if is_chat else (fields.get("prompt", "") != ""):
        return None
    kept = fields.get("keep_alive")
    is_unloaded = kept == 0 or (isinstance(kept, str) and _NO_TIME.fullmatch(kept) is not None)
    return LoadRequest(_model(fields), "unload" if is_unloaded else "load")


def read_ollama_show(body: Any) -> str:
    """The model that is asked about, as `model` or, as older clients call it, `name`; some send the other one empty.
    Raises FaultError as `read_ollama_chat` does."""
    fields = _fields(body)
    if not fields.get("model") and "name" in fields:
        fields["model"] = fields["name"]
    return _model(fields)


def read_ollama_chat(body: Any, defaults: Sampling) -> CompletionRequest:
    """Raises FaultError for what is no request for a chat, or asks for something unsupported."""
    fields = _fields(body)
    messages = fields.get("messages")
    openai_request = {**_shared(fields), "messages": _messages(messages) if isinstance(messages, list) else messages}
    if fields.get("tools") and "response_format" in openai_request:
        raise wrong("format", "with 'format' no tool could be called; leave it or 'tools' out")
    return _read(read_chat, {**openai_request, **_thinking(fields), "tools": fields.get("tools")}, defaults)


def read_ollama_generate(body: Any, defaults: Sampling) -> CompletionRequest:
    """As `read_ollama_chat`, for one prompt, which goes through the chat template unless it is `raw`."""
    fields = _fields(body)
    prompt = parameters.text("prompt", fields.get("prompt"))
    system = parameters.text("system", fields.get("system", ""))
    if fields.get("raw"):
        if system:
            raise wrong("system", "a 'raw' prompt is all that the model reads; leave 'system' out")
        openai_request = {**_shared(fields), "prompt": prompt}
        read = _read(read_completion, openai_request, defaults)
        return read if "max_tokens" in openai_request else replace(read, max_new_tokens=None)
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    return _read(read_chat, {**_shared(fields), **_thinking(fields), "messages": messages}, defaults)


@dataclass(frozen=True, slots=True)
class OllamaBuilder:
    """Builds the objects of one answer; `is_chat` or generated text; `prompt_tokens` are those of its prompt."""

    model: str
    is_chat: bool
    prompt_tokens: int

    def piece(self, piece: Piece, created: str) -> dict[str, Any]:
        if isinstance(piece, ToolCall):
            return self._part(created, "", calls=[piece])
        part = self._part(created, "", thinking=piece.text) if piece.is_reasoning else self._part(created, piece.text)
        return {**part, "outrider": {"offline": True}} if piece.unverified else part

    def closing(self, answer: FinishedAnswer, created: str, nanoseconds: int) -> dict[str, Any]:
        """The last object of a stream; `nanoseconds` is the time that all took."""
        return {**self._part(created, ""), **self._ending(answer, nanoseconds)}

    def whole(self, answer: FinishedAnswer, created: str, nanoseconds: int) -> dict[str, Any]:
        part = self._part(created, answer.text, thinking=answer.reasoning, calls=answer.calls)
        return {**part, **self._ending(answer, nanoseconds)}

    def loaded(self, reason: str, created: str) -> dict[str, Any]:
        """The only object of an answer to a `LoadRequest`."""
        return {**self._part(created, ""), "done": True, "done_reason": reason}

    def _part(
        self, created: str, text: str, *, thinking: str = "", calls: list[ToolCall] | None = None
    ) -> dict[str, Any]:
        common = {"model": self.model, "created_at": created, "done": False}
        more: dict[str, Any] = {"thinking": thinking} if thinking else {}
        if not self.is_chat:
            return {**common, "response": text, **more}
        if calls:
            functions = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in calls]
            more["tool_calls"] = [{"function": function} for function in functions]
        return {**common, "message": {"role": "assistant", "content": text, **more}}

    def _ending(self, answer: FinishedAnswer, nanoseconds: int) -> dict[str, Any]:
        return {
            "done": True,
            "done_reason": "length" if answer.reason == "length" else "stop",
            "total_duration": nanoseconds,
            "load_duration": 0,  # every model that is served is loaded already
            "prompt_eval_count": self.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(answer.waited_s),
            "eval_count": answer.tokens,
            "eval_duration": _nanoseconds(answer.written_s),
            "outrider": extension([answer]),
        }


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _fields(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise wrong(None, "the body must be a JSON object")
    for name in _UNSUPPORTED:
        if body.get(name):
            raise wrong(name, f"'{name}' is not supported here; leave it out", "unsupported_parameter")
    return {name: value for name, value in body.items() if value is not None}


def _model(fields: Mapping[str, Any]) -> str:
    openai_request = _shared(fields)
    if "model" not in openai_request:
        raise wrong("model", "'model' is missing", "missing_required_parameter")
    return parameters.text("model", openai_request["model"])


def _read(
    read: Callable[[Any, Sampling], CompletionRequest], openai_request: dict[str, Any], defaults: Sampling
) -> CompletionRequest:
    """Raises FaultError with the body's names."""
    try:
        return read(openai_request, defaults)
    except FaultError as error:
        fault = error.fault
        name = _NAMES.get(fault.parameter or "")
        if name is None:
            raise
        message = fault.message.replace(f"'{fault.parameter}'", f"'{name}'")
        raise FaultError(replace(fault, message=message, parameter=name)) from error


def _options(options: Any) -> dict[str, Any]:
    """Numbers by which Ollama asks for nothing are left out, or are OpenAI's for that."""
    if not isinstance(options, dict):
        raise wrong("options", "'options' must be an object")
    openai_request = {}
    for ollama, openai in _OPTIONS.items():
        value = options.get(ollama)
        if ollama in _WHOLE and isinstance(value, float):
            value = int(value)
        if ollama == "num_predict" and value is not None and not _is_limit(value):
            # OpenAI's reader would ask for at least 1.
            most = parameters.MOST_WHOLE
            raise wrong("options.num_predict", f"'options.num_predict' must be a whole number, at most {most}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            if (ollama == "num_predict" and value <= 0) or (ollama == "seed" and value == -1):
                continue  # no limit, and a seed that is drawn
            if ollama == "top_k":
                value = max(value, 0)
            if ollama == "repeat_penalty" and value <= 0:
                value = 1
        if value is not None:
            openai_request[openai] = value
    return openai_request


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value <= parameters.MOST_WHOLE


def _shared(fields: Mapping[str, Any]) -> dict[str, Any]:
    openai_request = _options(fields.get("options", {}))
    if "model" in fields:
        model = fields["model"]
        openai_request["model"] = model.removesuffix(_LATEST) if isinstance(model, str) else model
    form = fields.get("format") or None  # an empty one asks for nothing
    if form is not None:
        schema = {"type": "json_schema", "json_schema": {"schema": form}}
        openai_request["response_format"] = {"type": "json_object"} if form == "json" else schema
    return {**openai_request, "stream": fields.get("stream", True)}


def _thinking(fields: Mapping[str, Any]) -> dict[str, Any]:
    value = fields.get("think")
    if value is None:
        return {}
    if isinstance(value, str):
        return {"reasoning_effort": value}
    if not isinstance(value, bool):
        raise wrong("think", "'think' must be true, false, or a level such as 'high'")
    return {"chat_template_kwargs": {"enable_thinking": value}}


def _messages(messages: list[Any]) -> list[Any]:
    """With the ids of calls that OpenAI's form wants. A result that names no call is of the first with its function's
    name that has none yet, or of the first of all."""
    waiting = _WaitingCalls()
    made = 0
    read = []
    for message in messages:
        if not isinstance(message, dict):
            read.append(message)
            continue
        message = {name: value for name, value in message.items() if value is not None}
        if message.get("images"):
            raise wrong("images", "'images' is not supported here; leave it out", "unsupported_parameter")
        if isinstance(message.get("tool_calls"), list):
            calls = [_call(call, made + number) for number, call in enumerate(message["tool_calls"])]
            made += len(calls)
            waiting.add(call for call in calls if _is_called(call))
            message = {**message, "tool_calls": calls}
        if message.get("role") == "tool":
            name, said = message.get("tool_name"), message.get("tool_call_id")
            message = {"name": name, "tool_call_id": waiting.take(said, name) or "", **message}
        if "thinking" in message:
            message = {**message, "reasoning_content": message["thinking"]}
        read.append(message)
    return read


class _WaitingCalls:
    """Calls without a result. Each is found in the same time, however many there are."""

    def __init__(self) -> None:
        self._ids: dict[int, Any] = {}  # by the number of the call
        self._numbers = count()
        self._numbers_of: defaultdict[tuple[str | None, str | None], deque[int]] = defaultdict(deque)

    def add(self, calls: Iterable[Any]) -> None:
        for call in calls:
            number = next(self._numbers)
            self._ids[number] = call["id"]
            for said, name in product((None, repr(call["id"])), (None, repr(call["function"].get("name")))):
                self._numbers_of[said, name].append(number)

    def take(self, said: Any, name: Any) -> Any | None:
        """The id of the first one with this id and function name, where they are said; without an id, of the first of
        all if none has the name. None if there is none."""
        found = self._first(None if said is None else repr(said), None if name is None else repr(name))
        if found is None and not said:
            found = self._first(None, None)
        return None if found is None else self._ids.pop(found)

    def _first(self, said: str | None, name: str | None) -> int | None:
        numbers = self._numbers_of.get((said, name))
        while numbers and numbers[0] not in self._ids:
            numbers.popleft()
        return numbers[0] if numbers else None


def _call(call: Any, number: int) -> Any:
    """A call in OpenAI's form. Where it has no id, it gets one of nine letters and digits, as Mistral's templates
    want it."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    arguments = {} if arguments is None else arguments
    return {
        "id": call.get("id") or f"call{number:05d}",
        "type": "function",
        "function": {**function, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)},
    }


def _is_called(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), dict)
