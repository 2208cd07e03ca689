"""Builds OpenAI's response objects, whole or in chunks. Pure: no clock, no tokens, no HTTP.

The field `outrider` is an extension, which clients may ignore.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from client.endpoint.openai_requests import RequestKind


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Some more text. `unverified`: the draft wrote it, and the target has not verified it."""

    text: str
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class FinishedAnswer:
    """`reason` is OpenAI's; `unverified` counts the tokens that the target has not verified; `details` is more that a
    person may want to know."""

    text: str
    reason: str
    prompt_tokens: int
    tokens: int
    unverified: int = 0
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResponseBuilder:
    """Builds the objects of one answer. `created` is in seconds since 1970; `target` and `draft` name, in
    `system_fingerprint`, which of the two wrote the text."""

    kind: RequestKind
    id: str
    created: int
    model: str
    target: str
    draft: str

    def whole(self, answer: FinishedAnswer) -> dict[str, Any]:
        content: dict[str, Any]
        if self.kind is RequestKind.CHAT:
            content = {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
        else:
            content = {"text": answer.text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": answer.reason}
        return {
            **self._common(answer.unverified > 0, "chat.completion", "text_completion"),
            "choices": [choice],
            "usage": usage(answer),
            "outrider": extension(answer),
        }

    def opening(self) -> Iterator[dict[str, Any]]:
        """Chunks that precede all text."""
        if self.kind is RequestKind.CHAT:
            yield self._chunk({"delta": {"role": "assistant", "content": ""}}, None, unverified=False)

    def piece(self, piece: TextPiece) -> dict[str, Any]:
        content = {"delta": {"content": piece.text}} if self.kind is RequestKind.CHAT else {"text": piece.text}
        chunk = self._chunk(content, None, unverified=piece.unverified)
        return {**chunk, "outrider": {"offline": True}} if piece.unverified else chunk

    def closing(self, answer: FinishedAnswer, *, include_usage: bool) -> Iterator[dict[str, Any]]:
        """Chunks that follow all text."""
        content: dict[str, Any] = {"delta": {}} if self.kind is RequestKind.CHAT else {"text": ""}
        yield {**self._chunk(content, answer.reason, unverified=answer.unverified > 0), "outrider": extension(answer)}
        if include_usage:
            chunk = self._common(answer.unverified > 0, "chat.completion.chunk", "text_completion")
            yield {**chunk, "choices": [], "usage": usage(answer)}

    def _chunk(self, content: dict[str, Any], reason: str | None, *, unverified: bool) -> dict[str, Any]:
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
        return {**self._common(unverified, "chat.completion.chunk", "text_completion"), "choices": [choice]}

    def _common(self, unverified: bool, chat: str, completion: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": chat if self.kind is RequestKind.CHAT else completion,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"fp_offline_{self.draft}" if unverified else f"fp_{self.target}",
        }


def usage(answer: FinishedAnswer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.tokens,
        "total_tokens": answer.prompt_tokens + answer.tokens,
    }


def extension(answer: FinishedAnswer) -> dict[str, Any]:
    return {"offline": answer.unverified > 0, "unconfirmed_tokens": answer.unverified, **answer.details}


def model_list(contexts: Mapping[str, int], created: int) -> dict[str, Any]:
    """`contexts` are the models' names, each with the tokens of its longest sequence."""
    return {"object": "list", "data": [model(name, context, created) for name, context in contexts.items()]}


def model(name: str, context: int, created: int) -> dict[str, Any]:
    # The length is vLLM's extension, and has its name.
    return {"id": name, "object": "model", "created": created, "owned_by": "outrider", "max_model_len": context}
