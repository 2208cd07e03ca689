"""Text to tokens and back: prompts through the chat template, answers as they grow.

Knows a tokenizer and nothing of sessions or screens.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from client.private.spans import BEGIN, SplitPrompt, before_private, has_marks, without_marks
from common.programs.native_calls import ended_by_second_interrupt
from common.protocol.errors import MisuseError
from common.protocol.plain import plain

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_BROKEN = "\N{REPLACEMENT CHARACTER}"
_CHARACTER_BYTES = 4  # of the longest character in UTF-8, and so the tokens after which it is whole or never will be
_LINE = "\n"
_CONTEXT_TOKENS = 16  # at the end of a prompt, of which some have text
_LONGEST_COMPLAINT = 200  # characters of what a template has to say, which a server has written

Message = dict[str, Any]
"""A role and a content; what else it has is the template's to read."""


@dataclass(frozen=True, slots=True)
class TemplateInput:
    """What a template is given beside the messages: descriptions of the tools that may be called, and variables."""

    tools: tuple[Mapping[str, Any], ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)


_NOTHING_MORE = TemplateInput()


def valid_text(text: str) -> str:
    """The text. Raises UnicodeError where it stands for bytes that were no text, as arguments of commands may."""
    text.encode()
    return text


def given_text(name: str, text: str) -> str:
    """What a person gave, called `name`, as text. Raises MisuseError where its bytes were not UTF-8."""
    try:
        return valid_text(text)
    except UnicodeError as error:
        raise MisuseError(f"{name} is not valid text; give it in UTF-8") from error


def most_characters(tokenizer: "Tokenizer", context: int) -> int:
    """Of a text that a target of this context may hold. Takes a while for a large vocabulary."""
    return max(map(len, tokenizer.get_vocab())) * context


def check_characters(characters: int, most: int, context: int) -> None:
    """Raises MisuseError for a text that is too long, however it is made of tokens, which for such a text takes long to
    find out."""
    if characters > most:
        raise MisuseError(
            f"the prompt has {characters} characters, but this model's maximum context length is {context} tokens, "
            f"which are at most {most} characters; shorten the prompt"
        )


def raw_tokens(tokenizer: "Tokenizer", prompt: str) -> list[int]:
    with ended_by_second_interrupt():
        return list(tokenizer(prompt)["input_ids"])


def chat_tokens(tokenizer: "Tokenizer", messages: list[Message], more: TemplateInput = _NOTHING_MORE) -> list[int]:
    """The whole conversation as the target's template writes it, up to where the answer begins.

    Raises MisuseError where the target has no template or it refuses the conversation.
    """
    return list(_through_template(tokenizer, messages, more, tokenize=True))


def raw_prompt(tokenizer: "Tokenizer", text: str) -> SplitPrompt:
    """A text as it is. Raises MisuseError for private spans that cannot be."""
    safe = before_private(text)
    if safe is None:
        return SplitPrompt(tuple(raw_tokens(tokenizer, text)), is_raw=True)
    private = _tokens_behind(tokenizer, safe, without_marks(text[len(safe) :]))
    return SplitPrompt(tuple(raw_tokens(tokenizer, safe)), private, is_raw=True)


def chat_prompt(tokenizer: "Tokenizer", messages: list[Message], more: TemplateInput = _NOTHING_MORE) -> SplitPrompt:
    """A conversation as `chat_tokens` has it. A person's messages may have private spans; an answer that quotes a mark
    has none.

    Raises MisuseError as `chat_tokens` does, for private spans that cannot be, and for a template that does not leave
    what precedes the first one as it is.
    """
    before = [None if message["role"] == "assistant" else before_private(message["content"]) for message in messages]
    first = next((index for index, text in enumerate(before) if text is not None), None)
    if first is None:
        return SplitPrompt(tuple(chat_tokens(tokenizer, messages, more)))
    # Rendered without what is private, so that not even a template's whim can show any of it.
    opening = [*messages[:first], {**messages[first], "content": f"{before[first]}{BEGIN}"}]
    safe, mark, _ = str(_through_template(tokenizer, opening, more, tokenize=False)).rpartition(BEGIN)
    whole = str(_through_template(tokenizer, messages, more, tokenize=False))
    if not mark or not whole.startswith(safe + mark):
        raise MisuseError(
            "the target's chat template does not keep private text apart; give it plain text with `outrider run --raw`"
        )
    private = _tokens_behind(tokenizer, safe, without_marks(whole[len(safe) :]))
    return SplitPrompt(_plain_tokens(tokenizer, safe), private)


def _plain_tokens(tokenizer: "Tokenizer", text: str) -> tuple[int, ...]:
    """A part of a text that has its special tokens already, or needs none."""
    with ended_by_second_interrupt():
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def _tokens_behind(tokenizer: "Tokenizer", safe: str, private: str) -> tuple[int, ...]:
    """Tokens of the private part, which read behind those of the safe part as both do in one text. Many tokenizers put
    a blank before each text, and so before a part that is a text of its own; behind a line they do not."""
    alone, line = _plain_tokens(tokenizer, private), _plain_tokens(tokenizer, _LINE)
    before = _plain_tokens(tokenizer, safe)
    wanted = _written(tokenizer, _plain_tokens(tokenizer, safe + private))
    for tokens in (alone, _plain_tokens(tokenizer, _LINE + private)[len(line) :]):
        if _written(tokenizer, before + tokens) == wanted:
            return tokens
    return alone  # a character that is composed across the seam, or a line that became part of a token


def _written(tokenizer: "Tokenizer", tokens: tuple[int, ...]) -> str:
    with ended_by_second_interrupt():
        return str(tokenizer.decode(list(tokens), skip_special_tokens=False))


def knows_tools(tokenizer: "Tokenizer") -> bool:
    """Whether the target's template shows tools to it, tried on a short conversation."""
    messages = [{"role": "user", "content": "Hi"}]
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
    shown = TemplateInput(({"type": "function", "function": function},))
    try:
        with_tools, without = (
            _through_template(tokenizer, messages, more, tokenize=False) for more in (shown, _NOTHING_MORE)
        )
    except MisuseError:
        return False
    return bool(with_tools != without)


def _through_template(tokenizer: "Tokenizer", messages: list[Message], more: TemplateInput, *, tokenize: bool) -> Any:
    if tokenizer.chat_template is None:
        raise MisuseError("this target has no chat template; give it plain text with `outrider run --raw`")
    try:
        with ended_by_second_interrupt():
            return tokenizer.apply_chat_template(
                messages,
                tools=[dict(tool) for tool in more.tools] or None,
                add_generation_prompt=True,
                tokenize=tokenize,
                return_dict=False,
                **more.variables,
            )
    except Exception as error:  # a template is a program, and may fail as any program may
        complaint = plain(str(error), _LONGEST_COMPLAINT)
        raise MisuseError(
            f"the target's chat template fails ({complaint}); give it plain text with `outrider run --raw`"
        ) from error


def decode(tokenizer: "Tokenizer", tokens: Sequence[int], context: int = 0) -> str:
    """The text of the tokens behind the first `context`, without special ones."""
    with ended_by_second_interrupt():
        text_of = partial(tokenizer.decode, skip_special_tokens=True)
        known, text = text_of(list(tokens[:context])), text_of(list(tokens))
        # What was final stays so, also where a byte that is wrong breaks the run that it ends.
        return str(text[len(known) :] if text.startswith(known) else text_of(list(tokens[context:])))


def before_answer(tokenizer: "Tokenizer", prompt: SplitPrompt) -> Sequence[int]:
    """The prompt's last tokens, behind which its answer is decoded: several decoders strip a blank at the start of a
    text. Empty where a template ends the prompt: its answer is a text of its own, which goes into the template
    again."""
    last = prompt.tokens[-_CONTEXT_TOKENS:] if prompt.is_raw else ()
    for start in range(len(last) - 1, -1, -1):
        text = decode(tokenizer, last[start:])
        if text and _BROKEN not in text:
            return last[start:]
    return last


def answer_text(
    tokenizer: "Tokenizer", ends: Collection[int], tokens: Sequence[int], before: Sequence[int] = ()
) -> str:
    """The text of a whole answer: what was shown of it as it came, whatever the pieces."""
    text = IncrementalText(tokenizer, ends, before=before)
    return text.commit(tokens) + text.flush()


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked once: a `prompt` and, unless it is `raw` and so without the chat template, a `system` prompt."""

    prompt: str
    system: str = ""
    raw: bool = False

    def __post_init__(self) -> None:
        """Raises MisuseError for what cannot be asked."""
        if self.raw and self.system:
            raise MisuseError("--raw leaves out the chat template, which a system prompt needs; leave one of them out")
        check_system(self.system)


def check_system(text: str) -> None:
    """Raises MisuseError for a system prompt that cannot be sent."""
    given_text("the system prompt", text)
    if has_marks(text):
        raise MisuseError("a system prompt goes to the server, so it cannot hold private text")


def system_messages(system: str) -> list[Message]:
    """What a conversation with this system prompt begins with; nothing for an empty one."""
    return [{"role": "system", "content": system}] if system else []


class IncrementalText:
    """An answer's text as its tokens come, a character never shown before its last byte is known.

    Decodes only a window: tokens before it have been turned into text for good, and the window begins one step
    early because tokenizers decode a token differently at the start of a text than inside one. Token by token, so
    that bytes that are no text come out the same in whatever pieces they came.
    """

    def __init__(
        self,
        tokenizer: "Tokenizer",
        ends: Collection[int],
        shown: Mapping[int, str] | None = None,
        before: Sequence[int] = (),
    ):
        """`ends` are the target's end tokens, which have no text, also where a tokenizer knows one as a token like any
        other. `shown` are special tokens that count as text, each with its own. `before` are tokens of the prompt, as
        `before_answer` chooses them."""
        self._tokenizer = tokenizer
        self._ends = ends
        self._shown = shown or {}
        self._window = list(before)
        self._context = len(self._window)  # leading tokens of the window that only give context

    def commit(self, tokens: Sequence[int]) -> str:
        """Appends tokens; returns the text that became final."""
        final = ""
        for token in tokens:
            if token in self._ends:
                continue
            if token in self._shown:
                window = self._window
                final += self.flush() + self._shown[token]
                # Several decoders strip a blank at the start of a text, and the answer goes on in this one.
                self._window, self._context = window, len(window)
                continue
            self._window.append(token)
            text = decode(self._tokenizer, self._window, self._context)
            # A decoder of byte tokens may break a whole run of them for one that is wrong.
            while text and not text.rstrip(_BROKEN) and len(self._window) - self._context >= _CHARACTER_BYTES:
                final += decode(self._tokenizer, self._window[self._context : self._context + 1])
                del self._window[: self._context + 1]
                self._context = 0
                text = decode(self._tokenizer, self._window, self._context)
            if text and not text.endswith(_BROKEN):
                final += text
                self._window = self._window[self._context :]
                self._context = len(self._window)
        return final

    def preview(self, tokens: Sequence[int]) -> str:
        """The text that would follow the final text if these tokens were committed."""
        run = (token for token in tokens if token not in self._ends)
        return decode(self._tokenizer, [*self._window, *run], self._context).rstrip(_BROKEN)

    def flush(self) -> str:
        """The rest, broken characters included: no more tokens will come."""
        rest = decode(self._tokenizer, self._window, self._context)
        self._window, self._context = [], 0
        return rest
