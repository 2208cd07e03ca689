"""Builds the objects and events of OpenAI's `/v1/responses`. Pure: no clock, no tokens, no HTTP.

A whole response is the last event of a streamed one, so that both say the same. The field `outrider` is an extension,
which clients may ignore.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from client.endpoint import openai_logprobs
from client.endpoint.answer_parsers.pieces import Piece, TextPiece, ToolCall
from client.endpoint.faults import Fault
from client.endpoint.openai_requests import CompletionRequest
from client.endpoint.openai_responses import FinishedAnswer, extension

Event = dict[str, Any]
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _OpenItem:
    """An item of the output that grows: a message, or reasoning."""

    output_index: int
    item: Item
    part: dict[str, Any]  # its only one

    @property
    def is_message(self) -> bool:
        return bool(self.item["type"] == "message")

    @property
    def where(self) -> dict[str, Any]:
        return {"item_id": self.item["id"], "output_index": self.output_index, "content_index": 0}


class ResponseWriter:
    """One response. `created` is in seconds since 1970; `body` is the request's, whose settings a response repeats;
    `new_id` makes an id with a prefix."""

    def __init__(
        self,
        request: CompletionRequest,
        body: Mapping[str, Any],
        prompt_tokens: int,
        created: int,
        new_id: Callable[[str], str],
    ):
        self._new_id = new_id
        self._prompt_tokens = prompt_tokens
        self._output: list[Item] = []
        self._open: _OpenItem | None = None
        self._numbers = 0
        self._response: dict[str, Any] = {
            "id": new_id("resp"),
            "object": "response",
            "created_at": created,
            "model": request.model,
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": body.get("metadata") or {},
            "parallel_tool_calls": request.parallel_calls,
            "previous_response_id": None,
            "reasoning": {"effort": (body.get("reasoning") or {}).get("effort"), "summary": None},
            "store": False,
            "temperature": request.sampling.temperature,
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
            "top_p": request.sampling.top_p,
            "truncation": "disabled",
        }

    def whole(self, answer: FinishedAnswer) -> dict[str, Any]:
        for piece in answer.pieces:
            list(self.piece(piece))
        *_, last = self.closing(answer)
        response: dict[str, Any] = last["response"]
        return response

    def opening(self) -> Iterator[Event]:
        """Events that precede all text."""
        for name in ("created", "in_progress"):
            yield self._event(f"response.{name}", response=self._response_in("in_progress"))

    def piece(self, piece: Piece) -> Iterator[Event]:
        if isinstance(piece, ToolCall):
            yield from self._close("completed")
            yield from self._call(piece)
            return
        if self._open is not None and self._open.is_message is piece.is_reasoning:
            yield from self._close("completed")
        if self._open is None:
            yield from self._begin(piece)
        yield from self._append(piece)

    def closing(self, answer: FinishedAnswer) -> Iterator[Event]:
        """Events that follow all text."""
        is_cut = answer.reason == "length"
        status = "incomplete" if is_cut else "completed"
        yield from self._close(status)
        response = {
            **self._response_in(status),
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "usage": {
                "input_tokens": self._prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": answer.tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": self._prompt_tokens + answer.tokens,
            },
            "outrider": extension([answer]),
        }
        yield self._event(f"response.{status}", response=response)

    def failed(self, fault: Fault) -> Event:
        """The event that ends a response which began and broke off."""
        error = {"code": "server_error", "message": fault.body()["error"]["message"]}
        return self._event("response.failed", response={**self._response_in("failed"), "error": error})

    def _begin(self, piece: TextPiece) -> Iterator[Event]:
        item: Item
        if piece.is_reasoning:
            item = {"id": self._new_id("rs"), "type": "reasoning", "summary": []}
            part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
        else:
            item = {"id": self._new_id("msg"), "type": "message", "role": "assistant"}
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._open = _OpenItem(len(self._output), item, part)
        yield self._item_event("added", self._open.output_index, {**item, "status": "in_progress", "content": []})
        yield self._event("response.content_part.added", **self._open.where, part=dict(part))

    def _append(self, piece: TextPiece) -> Iterator[Event]:
        grown = self._open
        assert grown is not None, "text belongs to an item"
        grown.part["text"] += piece.text
        more: dict[str, Any] = {"outrider": {"offline": True}} if piece.unverified else {}
        if not grown.is_message:
            yield self._event("response.reasoning_text.delta", **grown.where, delta=piece.text, **more)
            return
        logprobs = (openai_logprobs.in_chat(piece.scored) or {"content": []})["content"]
        grown.part["logprobs"] = [*grown.part["logprobs"], *logprobs]
        yield self._event("response.output_text.delta", **grown.where, delta=piece.text, logprobs=logprobs, **more)

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is None:
            return
        closed, self._open = self._open, None
        name = "output_text" if closed.is_message else "reasoning_text"
        logprobs = {"logprobs": closed.part["logprobs"]} if closed.is_message else {}
        yield self._event(f"response.{name}.done", **closed.where, text=closed.part["text"], **logprobs)
        yield self._event("response.content_part.done", **closed.where, part=closed.part)
        self._output.append({**closed.item, "status": status, "content": [closed.part]})
        yield self._item_event("done", closed.output_index, self._output[-1])

    def _call(self, call: ToolCall) -> Iterator[Event]:
        output_index, id_ = len(self._output), self._new_id("fc")
        item = {"id": id_, "type": "function_call", "call_id": call.id, "name": call.name}
        where = {"item_id": id_, "output_index": output_index}
        self._output.append({**item, "arguments": call.arguments, "status": "completed"})
        yield self._item_event("added", output_index, {**item, "arguments": "", "status": "in_progress"})
        yield self._event("response.function_call_arguments.delta", **where, delta=call.arguments)
        yield self._event("response.function_call_arguments.done", **where, name=call.name, arguments=call.arguments)
        yield self._item_event("done", output_index, self._output[-1])

    def _response_in(self, status: str) -> dict[str, Any]:
        return {**self._response, "status": status, "output": list(self._output)}

    def _item_event(self, name: str, output_index: int, item: Item) -> Event:
        return self._event(f"response.output_item.{name}", output_index=output_index, item=item)

    def _event(self, name: str, /, **fields: Any) -> Event:
        number, self._numbers = self._numbers, self._numbers + 1
        return {"type": name, "sequence_number": number, **fields}
