"""The objects of OpenAI's interface that an answer becomes, whole or in chunks. Pure: no clock, no tokens, no HTTP.

`outrider` is ours: what a client of any other server never sees, and may leave unread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from client.endpoint.openai_requests import Kind


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more text. `alone`: the draft wrote it, and nobody has judged it."""

    text: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """An answer that is over. `reason` is OpenAI's; `alone` counts the tokens that nobody has judged; `about` is more
    that a person may want to know."""

    text: str
    reason: str
    prompt_tokens: int
    tokens: int
    alone: int = 0
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Naming:
    """What every object of one answer says: `created` in seconds since 1970; `target` and `draft` tell apart what can
    have written the text."""

    kind: Kind
    id: str
    created: int
    model: str
    target: str
    draft: str

    def whole(self, written: Written) -> dict[str, Any]:
        said: dict[str, Any]
        if self.kind is Kind.CHAT:
            said = {"message": {"role": "assistant", "content": written.text, "refusal": None}}
        else:
            said = {"text": written.text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": written.reason}
        return {
            **self._common(written.alone > 0, "chat.completion", "text_completion"),
            "choices": [choice],
            "usage": usage(written),
            "outrider": about(written),
        }

    def opening(self) -> Iterator[dict[str, Any]]:
        """Chunks that precede all text."""
        if self.kind is Kind.CHAT:
            yield self._chunk({"delta": {"role": "assistant", "content": ""}}, None, alone=False)

    def piece(self, piece: Piece) -> dict[str, Any]:
        said = {"delta": {"content": piece.text}} if self.kind is Kind.CHAT else {"text": piece.text}
        chunk = self._chunk(said, None, alone=piece.alone)
        return {**chunk, "outrider": {"offline": True}} if piece.alone else chunk

    def closing(self, written: Written, *, include_usage: bool) -> Iterator[dict[str, Any]]:
        """Chunks that follow all text."""
        said: dict[str, Any] = {"delta": {}} if self.kind is Kind.CHAT else {"text": ""}
        yield {**self._chunk(said, written.reason, alone=written.alone > 0), "outrider": about(written)}
        if include_usage:
            chunk = self._common(written.alone > 0, "chat.completion.chunk", "text_completion")
            yield {**chunk, "choices": [], "usage": usage(written)}

    def _chunk(self, said: dict[str, Any], reason: str | None, *, alone: bool) -> dict[str, Any]:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
        return {**self._common(alone, "chat.completion.chunk", "text_completion"), "choices": [choice]}

    def _common(self, alone: bool, chat: str, completion: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": chat if self.kind is Kind.CHAT else completion,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"fp_offline_{self.draft}" if alone else f"fp_{self.target}",
        }


def usage(written: Written) -> dict[str, Any]:
    return {
        "prompt_tokens": written.prompt_tokens,
        "completion_tokens": written.tokens,
        "total_tokens": written.prompt_tokens + written.tokens,
    }


def about(written: Written) -> dict[str, Any]:
    return {"offline": written.alone > 0, "unconfirmed_tokens": written.alone, **written.about}


def model_list(names: tuple[str, ...], created: int) -> dict[str, Any]:
    return {"object": "list", "data": [model(name, created) for name in names]}


def model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "outrider"}
