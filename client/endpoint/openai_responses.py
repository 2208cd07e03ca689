"""Builds OpenAI's response objects, whole or in chunks. Pure: no clock, no tokens, no HTTP.

The field `outrider` is an extension, which clients may ignore.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from client.endpoint import openai_logprobs
from client.endpoint.answer_parsers.pieces import Piece, ScoredToken, TextPiece, ToolCall
from client.endpoint.openai_requests import RequestKind


@dataclass(frozen=True, slots=True)
class FinishedAnswer:
    """`reason` is OpenAI's; `unverified` counts the tokens that the target has not verified; `details` is more that a
    person may want to know; `scored` are the tokens that no piece has. `waited_s` is from the beginning to the first
    token, `written_s` from there to the end."""

    pieces: tuple[Piece, ...]
    reason: str
    tokens: int
    unverified: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    scored: tuple[ScoredToken, ...] = ()
    waited_s: float = 0.0
    written_s: float = 0.0

    @property
    def all_scored(self) -> list[ScoredToken]:
        return [*(each for piece in self.pieces if isinstance(piece, TextPiece) for each in piece.scored), *self.scored]

    @property
    def text(self) -> str:
        return self._text(is_reasoning=False)

    @property
    def reasoning(self) -> str:
        return self._text(is_reasoning=True)

    @property
    def calls(self) -> list[ToolCall]:
        return [piece for piece in self.pieces if isinstance(piece, ToolCall)]

    def _text(self, *, is_reasoning: bool) -> str:
        texts = (piece for piece in self.pieces if isinstance(piece, TextPiece))
        return "".join(piece.text for piece in texts if piece.is_reasoning is is_reasoning)


@dataclass(frozen=True, slots=True)
class ResponseBuilder:
    """Builds the objects of one request's answers, its choices, which go by their index. `created` is in seconds since
    1970; `target` and `draft` name, in `system_fingerprint`, which of the two wrote the text; `prompt_tokens` are those
    of all prompts; `echoes` are texts that precede the choices."""

    kind: RequestKind
    id: str
    created: int
    model: str
    target: str
    draft: str
    prompt_tokens: int
    echoes: tuple[str, ...]

    def whole(self, answers: Sequence[FinishedAnswer]) -> dict[str, Any]:
        choices = [
            self._choice(index, self._content(index, each), each.reason, each.all_scored)
            for index, each in enumerate(answers)
        ]
        return {
            **self._common(any(each.unverified for each in answers), "chat.completion", "text_completion"),
            "choices": choices,
            "usage": self._usage(answers),
            "outrider": extension(answers),
        }

    def opening(self) -> Iterator[dict[str, Any]]:
        """Chunks that precede all text."""
        for index, echo in enumerate(self.echoes):
            if self.kind is RequestKind.CHAT:
                yield self._chunk(index, {"delta": {"role": "assistant", "content": ""}}, None, unverified=False)
            elif echo:
                yield self._chunk(index, {"text": echo}, None, unverified=False)

    def piece(self, index: int, piece: Piece, calls: int) -> Iterator[dict[str, Any]]:
        """The chunks of a piece; `calls` are those that precede it in its choice."""
        if isinstance(piece, ToolCall):
            function = {"name": piece.name, "arguments": ""}
            opening = {"index": calls, "id": piece.id, "type": "function", "function": function}
            for delta in (opening, {"index": calls, "function": {"arguments": piece.arguments}}):
                yield self._chunk(index, {"delta": {"tool_calls": [delta]}}, None, unverified=False)
            return
        name = "reasoning_content" if piece.is_reasoning else "content"
        content = {"delta": {name: piece.text}} if self.kind is RequestKind.CHAT else {"text": piece.text}
        chunk = self._chunk(index, content, None, unverified=piece.unverified, scored=piece.scored)
        yield {**chunk, "outrider": {"offline": True}} if piece.unverified else chunk

    def closing(self, index: int, answer: FinishedAnswer) -> dict[str, Any]:
        """The chunk that follows all text of a choice."""
        content: dict[str, Any] = {"delta": {}} if self.kind is RequestKind.CHAT else {"text": ""}
        is_unverified = answer.unverified > 0
        chunk = self._chunk(index, content, answer.reason, unverified=is_unverified, scored=answer.scored)
        return {**chunk, "outrider": extension([answer])}

    def usage(self, answers: Sequence[FinishedAnswer]) -> dict[str, Any]:
        """The chunk that follows all choices, for those who ask for it."""
        is_unverified = any(each.unverified for each in answers)
        chunk = self._common(is_unverified, "chat.completion.chunk", "text_completion")
        return {**chunk, "choices": [], "usage": self._usage(answers)}

    def _content(self, index: int, answer: FinishedAnswer) -> dict[str, Any]:
        if self.kind is RequestKind.COMPLETION:
            return {"text": self.echoes[index] + answer.text}
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["content"] = answer.text or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        return {"message": message}

    def _chunk(
        self,
        index: int,
        content: dict[str, Any],
        reason: str | None,
        *,
        unverified: bool,
        scored: Sequence[ScoredToken] = (),
    ) -> dict[str, Any]:
        choice = self._choice(index, content, reason, scored)
        return {**self._common(unverified, "chat.completion.chunk", "text_completion"), "choices": [choice]}

    def _choice(
        self, index: int, content: dict[str, Any], reason: str | None, scored: Sequence[ScoredToken]
    ) -> dict[str, Any]:
        if self.kind is RequestKind.CHAT:
            logprobs = openai_logprobs.in_chat(scored)
        else:
            logprobs = openai_logprobs.in_completion(scored)
        return {"index": index, **content, "logprobs": logprobs, "finish_reason": reason}

    def _common(self, unverified: bool, chat: str, completion: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": chat if self.kind is RequestKind.CHAT else completion,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"fp_offline_{self.draft}" if unverified else f"fp_{self.target}",
        }

    def _usage(self, answers: Sequence[FinishedAnswer]) -> dict[str, Any]:
        tokens = sum(each.tokens for each in answers)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }


def extension(answers: Sequence[FinishedAnswer]) -> dict[str, Any]:
    """What is told of answers beyond OpenAI's fields; of several, each one's own in `choices`."""
    unverified = sum(each.unverified for each in answers)
    about = {"offline": unverified > 0, "unconfirmed_tokens": unverified}
    if len(answers) == 1:
        return {**about, **answers[0].details}
    return {**about, "choices": [extension([each]) for each in answers]}


def model_list(contexts: Mapping[str, int], created: int) -> dict[str, Any]:
    """`contexts` are the models' names, each with the tokens of its longest sequence."""
    return {"object": "list", "data": [model(name, context, created) for name, context in contexts.items()]}


def model(name: str, context: int, created: int) -> dict[str, Any]:
    # The length is vLLM's extension, and has its name.
    return {"id": name, "object": "model", "created": created, "owned_by": "outrider", "max_model_len": context}
