"""Chooses how the answers of a checkpoint are taken apart: by its own description of them, else by its template.

Knows tokenizers; it may not know sessions or HTTP.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from secrets import choice, token_hex
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from client.endpoint.answer_parsers.answer_grammars import Marks, after_thinking, calls_anywhere, in_form
from client.endpoint.answer_parsers.calls import CallParser, CallSyntax
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.answer_parsers.llama3_json import Llama3Json
from client.endpoint.answer_parsers.mistral import Mistral
from client.endpoint.answer_parsers.pieces import AnswerParser, NewId, PlainText
from client.endpoint.answer_parsers.response_template import ResponseTemplate
from client.endpoint.answer_parsers.thinking import BEGIN, END, Thinking
from client.text import knows_tools
from common.protocol.errors import MisuseError
from common.protocol.messages import Constraint

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_PROMPT_TAIL_TOKENS = 16
"""In which a prompt may end with the mark where reasoning begins."""

SYNTAXES: Mapping[str, Callable[[], CallSyntax]] = {each.name: each for each in (Hermes, Llama3Json, Mistral)}

_BY_MARK = (
    ("[TOOL_CALLS]", Mistral),
    ("<function=", None),  # calls in XML, which no parser here reads
    ("<arg_key>", None),  # as of GLM: a name, and arguments in XML
    ("<tool_call>", Hermes),
    ("<|python_tag|>", Llama3Json),
    ('{"name": function name, "parameters"', Llama3Json),
)
"""The syntax of templates with such a mark; the first that a template has counts."""


def find_syntax(name: str) -> CallSyntax:
    """Raises MisuseError for an unknown one."""
    if name not in SYNTAXES:
        raise MisuseError(f"--tool-parser is {', '.join(SYNTAXES)}, not '{name}'")
    return SYNTAXES[name]()


def syntax_of(template: str) -> CallSyntax | None:
    """None if the template has no mark of one."""
    made = next((made for mark, made in _BY_MARK if mark in template), None)
    return made() if made is not None else None


class AnswerFormat:
    """How the answers of one checkpoint are written. `syntax` is what the user says of its calls, None for what its
    tokenizer tells; `end_tokens` are never text; `marks_thinking`: its template knows the marks of reasoning."""

    def __init__(self, tokenizer: "Tokenizer", end_tokens: Collection[int], syntax: CallSyntax | None = None):
        self._tokenizer = tokenizer
        self._end_tokens = end_tokens
        template = _templates_of(tokenizer)
        self._syntax = syntax or syntax_of(template)
        self._described = None if syntax else getattr(tokenizer, "response_template", None)
        self.marks_thinking = END in template

    def require_tool_messages(self) -> None:
        """Raises MisuseError if the template cannot show what tools were used."""
        if not self._knows_tools:
            raise MisuseError("the target's chat template knows no tools; ask without tools, or use another model")

    def require_tools(self) -> None:
        """Raises MisuseError if requests with tools cannot be answered."""
        self.require_tool_messages()
        if self._syntax is None and self._described is None:
            raise MisuseError(
                "it cannot be told how this target writes tool calls; start `outrider serve` with --tool-parser "
                f"and one of: {', '.join(SYNTAXES)}"
            )

    def call_grammar(self, tools: Sequence[Mapping[str, Any]], *, several: bool) -> str:
        """What an answer of nothing but calls of these tools is, in Lark's notation. Raises MisuseError where it cannot
        be told."""
        self.require_tools()
        if self._syntax is None:
            raise MisuseError(
                "this target's calls can be found but not forced; start `outrider serve` with --tool-parser and one "
                f"of: {', '.join(SYNTAXES)}"
            )
        return self._syntax.grammar([tool["function"] for tool in tools], self._marks, several=several)

    @property
    def tells_where_calls_begin(self) -> bool:
        """Whether calls can be constrained where the model is free to make one or not."""
        return self._described is None and self._syntax is not None and self._syntax.opening is not None

    def strict_grammar(self, tools: Sequence[Mapping[str, Any]], strict: Collection[str], prompt: Sequence[int]) -> str:
        """What an answer to a conversation of these tokens is that may have calls of these tools anywhere, in Lark's
        notation: arguments of those that are `strict` fit their schemas, those of others are objects. Only where it can
        be told where calls begin."""
        assert self._syntax is not None, "the syntax of calls is known"
        opening = self._syntax.opening
        assert opening is not None, "it can be told where calls begin"
        free = {"parameters": {"type": "object"}}
        functions = (tool["function"] for tool in tools)
        described = [each if each["name"] in strict else {**each, **free} for each in functions]
        rules = self._syntax.rules(described, self._marks)
        grammar = calls_anywhere(self._marks, opening.mark, opening.rest(self._marks), rules)
        # Text alone, up to a mark that is text, has no tokens of other kinds.
        is_text = opening.mark not in self._marks.tokens
        return self.behind_thought(grammar, prompt) or grammar if is_text else grammar

    def in_form(self, constraint: Constraint, prompt: Sequence[int]) -> str | None:
        """The constraint behind what the model may think first, as `behind_thought`; None for a user's grammar."""
        grammar = in_form(constraint)
        return None if grammar is None else self.behind_thought(grammar, prompt)

    def parser(
        self, prompt: Sequence[int], tools: Sequence[Mapping[str, Any]], *, may_think: bool = True
    ) -> AnswerParser:
        """For the answer to a conversation of these tokens. Calls are found only if there are tools; without
        `may_think` nothing is reasoning, whatever the template has opened. May take a second the first time.
        Raises MisuseError for a description that is not understood."""
        if self._described is not None and may_think:
            return ResponseTemplate(self._described, self._text(prompt), tools, new_id)
        content: AnswerParser = PlainText()
        if tools and self._syntax is not None:
            offered = {tool["function"]["name"] for tool in tools}
            content = CallParser(self._syntax, offered, self._new_id)
        if not self.marks_thinking or not may_think:
            return content
        return Thinking(content, is_inside=bool(self.opening(prompt)))

    def opening(self, prompt: Sequence[int]) -> str:
        """The mark that these tokens end with, behind which the answer goes on thinking; empty if they do not."""
        is_inside = self._described is None and self.marks_thinking and self._tail(prompt).endswith(BEGIN)
        return BEGIN if is_inside else ""

    def shown_tokens(self, *, with_tools: bool) -> dict[int, str]:
        """Special tokens that are text to the parser, each with its text."""
        if self._described is not None:
            return self._special_tokens
        marks: tuple[str, ...] = (BEGIN, END) if self.marks_thinking else ()
        if with_tools and self._syntax is not None:
            marks += self._syntax.marks
        return {number: text for number, text in self._special_tokens.items() if text in marks} if marks else {}

    @cached_property
    def _knows_tools(self) -> bool:
        return knows_tools(self._tokenizer)

    @property
    def _new_id(self) -> NewId:
        return new_short_id if isinstance(self._syntax, Mistral) else new_id

    @cached_property
    def _special_tokens(self) -> dict[int, str]:
        """Those that may stand in an answer."""
        added = self._tokenizer.added_tokens_decoder.items()
        return {number: str(token) for number, token in added if token.special and number not in self._end_tokens}

    def behind_thought(self, grammar: str, prompt: Sequence[int]) -> str | None:
        """A grammar of `answer_grammars` behind what the model may think first, in answer to these tokens; None if it
        thinks nothing that can be told from the answer."""
        tail = self._tail(prompt)
        if self._described is not None or not self.marks_thinking or tail.endswith(END):
            return None
        return after_thinking(self._marks, grammar, is_inside=tail.endswith(BEGIN))

    @cached_property
    def _marks(self) -> Marks:
        added = self._tokenizer.added_tokens_decoder.items()
        return Marks(
            {str(token): number for number, token in added if number not in self._end_tokens}, self._end_tokens
        )

    def _tail(self, prompt: Sequence[int]) -> str:
        return self._text(prompt[-_PROMPT_TAIL_TOKENS:]).rstrip()

    def _text(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))


def new_id() -> str:
    return f"call_{token_hex(12)}"


def new_short_id() -> str:
    """Nine letters or digits, which Mistral's templates insist on."""
    return "".join(choice(ascii_letters + digits) for _ in range(9))


def _templates_of(tokenizer: "Tokenizer") -> str:
    """What the checkpoint's templates say: how calls are written may stand in the one for requests with tools alone."""
    named = tokenizer.chat_template
    if not isinstance(named, dict):  # as transformers' own tokenizers keep several
        named = {"default": named, "tool_use": getattr(tokenizer, "tool_template", None)}
    return "\n".join(str(named[name]) for name in ("default", "tool_use") if named.get(name))
