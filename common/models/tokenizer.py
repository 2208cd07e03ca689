"""Text to tokens and back with the tokenizers library alone: what a client needs of a tokenizer, without transformers.

Transformers knows how a checkpoint's files become a tokenizer, and is asked once: `plain_tokenizer` takes over what it
has made, and can be written and read again as bytes. It may not know checkpoints, caches or clients.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import tokenizers

from common.models.chat_template import render
from common.transformers_import import IMPORTING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_AS_INHERITED = (
    "__call__",
    "_call_one",
    "_decode",
    "_encode_plus",
    "_get_padding_truncation_strategies",
    "apply_chat_template",
    "clean_up_tokenization",
    "decode",
    "get_chat_template",
    "get_vocab",
    "special_tokens_map",
)
"""What a tokenizer's class may not do in a way of its own."""

_TRIAL = "a word and another,  1 é 日本 🦊\n\t<|end|> </s> [INST] don't "


class Tokenizer(Protocol):
    """What is asked of a tokenizer: part of transformers' interface, so that its tokenizers are such ones too."""

    chat_template: Any
    response_template: Any
    """Transformers' description of what an answer consists of, None if the checkpoint has none."""

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]: ...

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> Mapping[str, Any]: ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> Any: ...

    def get_vocab(self) -> dict[str, int]: ...

    def apply_chat_template(
        self,
        conversation: Any,
        tools: Any = None,
        *,
        add_generation_prompt: bool,
        tokenize: bool,
        return_dict: bool,
        **variables: Any,
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How a checkpoint writes conversations: its template, the one for requests with tools if that is another, and
    transformers' description of answers, None if there is none."""

    chat_template: str | None
    tool_template: str | None
    response_template: Any


class PlainTokenizer:
    def __init__(self, backend: tokenizers.Tokenizer, chat: ChatFormat, variables: Mapping[str, str], *, splits: bool):
        """`variables` are what a template knows of special tokens; `splits`: special tokens in a text are text."""
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = splits
        self.chat_template = chat.chat_template
        self.tool_template = chat.tool_template
        self.response_template = chat.response_template
        self.decode = backend.decode
        self._chat = chat
        self._backend = backend
        self._variables = dict(variables)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises ValueError, or whatever the library does, for what `to_bytes` did not write."""
        kept = json.loads(data)
        backend = tokenizers.Tokenizer.from_str(kept["tokenizer"])
        return cls(backend, ChatFormat(**kept["chat"]), kept["variables"], splits=kept["splits"])

    def to_bytes(self) -> bytes:
        kept = {
            "tokenizer": self._backend.to_str(),
            "chat": asdict(self._chat),
            "variables": self._variables,
            "splits": self._backend.encode_special_tokens,
        }
        return json.dumps(kept).encode()

    @property
    def definition(self) -> str:
        return self._backend.to_str()

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": self._backend.encode(text, add_special_tokens=add_special_tokens).ids}

    def get_vocab(self) -> dict[str, int]:
        return self._backend.get_vocab(with_added_tokens=True)

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Tokens that were added to the vocabulary, special or not, by their numbers."""
        return self._backend.get_added_tokens_decoder()

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        tokenize: bool,
        return_dict: bool = False,
        **variables: Any,
    ) -> str | list[int]:
        """The conversation up to where the answer begins. Raises whatever the template does."""
        if not add_generation_prompt or return_dict or self.chat_template is None:
            raise ValueError("a template is rendered up to where an answer begins, as text or as a list of tokens")
        template = self.chat_template
        if tools is not None and self.tool_template is not None:
            template = self.tool_template
        text = render(template, conversation, {**self._variables, **variables}, tools)
        return self(text, add_special_tokens=False)["input_ids"] if tokenize else text


def definition_of(tokenizer: Any) -> str | None:
    """A tokenizer in the tokenizers library's JSON, without padding and truncation; None where it has ways of its
    own."""
    plain = tokenizer if isinstance(tokenizer, PlainTokenizer) else plain_tokenizer(tokenizer)
    return None if plain is None else plain.definition


def plain_tokenizer(theirs: "PreTrainedTokenizerBase") -> PlainTokenizer | None:
    """The same without transformers; None where it has ways of its own."""
    with IMPORTING:
        from transformers import TokenizersBackend

    if not isinstance(theirs, TokenizersBackend):
        return None
    if any(getattr(type(theirs), name, None) is not getattr(TokenizersBackend, name, None) for name in _AS_INHERITED):
        return None
    template: Any = theirs.chat_template
    tool_template: str | None = None
    if isinstance(template, dict):
        tool_template = template.get("tool_use")
        template = template.get("default")
        if template is None:  # which is no reason not to have one
            return None
    chat = ChatFormat(template, tool_template, getattr(theirs, "response_template", None))
    backend = tokenizers.Tokenizer.from_str(theirs.backend_tokenizer.to_str())
    plain = PlainTokenizer(backend, chat, theirs.special_tokens_map, splits=theirs.split_special_tokens)
    return plain if _agree(plain, theirs) else None


def _agree(plain: PlainTokenizer, theirs: Any) -> bool:
    for add_special_tokens in (True, False):
        tokens = theirs(_TRIAL, add_special_tokens=add_special_tokens)["input_ids"]
        if plain(_TRIAL, add_special_tokens=add_special_tokens)["input_ids"] != tokens:
            return False
        for skip in (True, False):
            text = theirs.decode(tokens, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
            if plain.decode(tokens, skip_special_tokens=skip) != text:
                return False
    return bool(plain.get_vocab() == theirs.get_vocab())
