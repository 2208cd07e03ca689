"""Answers requests to one model: makes prompt and options, runs them on a conversation of the pool, builds the result.

Knows the client and its conversations; it may not know HTTP.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from client.answer import Answer, TokenListener
from client.answering import AnswerOptions
from client.assembly import Client
from client.endpoint.answer_on_conversation import AnswerOnConversation, Choice, compiled, to_its_end
from client.endpoint.answer_parsers.answer_format import AnswerFormat
from client.endpoint.answer_parsers.calls import CallSyntax
from client.endpoint.answer_parsers.pieces import AnswerParser, PlainText
from client.endpoint.conversation_pool import ConversationPool
from client.endpoint.faults import wrong
from client.endpoint.openai_messages import Message, has_tools
from client.endpoint.openai_requests import CompletionRequest, RequestKind
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.parameters import strings_in
from client.endpoint.stream_emitter import Emit, TextForm
from client.endpoint.token_scores import Spelling
from client.link.link_state import LinkState
from client.link.reconnecting_stream import LinkListener
from client.private.spans import SplitPrompt, has_marks
from client.text import (
    TemplateInput,
    before_answer,
    chat_prompt,
    check_characters,
    decode,
    most_characters,
    raw_prompt,
)
from common.bundle import TOKENIZER_FOLDER
from common.models.errors import CheckpointError
from common.models.source import CONFIG, read_json
from common.protocol.checks import prompt_fault
from common.protocol.client_session import ClientSession
from common.protocol.constraint import Grammar, check_length
from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import Constraint
from common.protocol.plain import is_plain
from common.protocol.rules import default_rule
from common.protocol.sampling import Sampling

if TYPE_CHECKING:
    from common.models.tokenizer import Tokenizer

_NAME_LENGTH = 12  # of fingerprints, for people
_ENDLESS_SECONDS = 86400.0  # for a person who looks on, and may stop it at any time


class WhenOffline(StrEnum):
    ANSWER = "answer"  # with what the draft writes
    REFUSE = "refuse"


def find_offline_behaviour(name: str) -> WhenOffline:
    """Raises MisuseError for an unknown one."""
    if name not in list(WhenOffline):
        raise MisuseError(f"--offline is {' or '.join(WhenOffline)}, not '{name}'")
    return WhenOffline(name)


@dataclass(frozen=True, slots=True)
class EndpointDefaults:
    """How all requests are answered if they do not say it themselves. `syntax` is how the targets write tool calls,
    None for what each one's tokenizer tells; `strict`: requests with unknown parameters are refused; `offline_note` is
    the last line of a streamed chat's answer of which the draft has written some alone, empty for none."""

    options: AnswerOptions
    rule: str | None  # None for the one that fits the temperature
    when_offline: WhenOffline
    syntax: CallSyntax | None = None
    strict: bool = False
    offline_note: str = ""


@dataclass(frozen=True, slots=True)
class _Constrained:
    """`may_think`: the constraint lets the model think before the rest of its answer. `unheeded` names parameters that
    have no effect."""

    constraint: Constraint | None
    may_think: bool
    unheeded: tuple[str, ...] = ()


_FREE = _Constrained(None, may_think=True)


class Service:
    """`on_link_change` is called when the link of any conversation changes."""

    def __init__(
        self, client: Client, pool: ConversationPool, defaults: EndpointDefaults, on_link_change: LinkListener
    ):
        self._client = client
        self._pool = pool
        self._defaults = defaults
        self._on_link_change = on_link_change
        self._format = AnswerFormat(client.tokenizer, self.end_tokens, defaults.syntax)
        self._note = f"\n\n{defaults.offline_note}" if defaults.offline_note else ""
        self._spelling = Spelling(client.tokenizer)
        self._most_characters = most_characters(client.tokenizer, client.description.context)

    @property
    def model(self) -> str:
        """Its name."""
        return self._client.description.model

    @property
    def context(self) -> int:
        """The tokens of the longest sequence."""
        return self._client.description.context

    @property
    def tokenizer(self) -> "Tokenizer":
        return self._client.tokenizer

    @property
    def end_tokens(self) -> tuple[int, ...]:
        return self._client.description.end_tokens

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Short names of what may write an answer: the target and the draft model."""
        return self._client.description.fingerprint[:_NAME_LENGTH], self._client.manifest.id[:_NAME_LENGTH]

    @property
    def digest(self) -> str:
        """The target's whole fingerprint."""
        return self._client.description.fingerprint

    @cached_property
    def family(self) -> str:
        """The target's architecture in transformers' words; empty if its configuration, which lies beside its tokenizer
        in every bundle, does not say it."""
        try:
            family = read_json(self._client.bundle / TOKENIZER_FOLDER / CONFIG).get("model_type")
        except CheckpointError:
            return ""
        return family if isinstance(family, str) and is_plain(family) else ""

    @property
    def template(self) -> str:
        """The target's chat template, empty if it has none."""
        return str(self._client.tokenizer.chat_template or "")

    def capabilities(self) -> list[str]:
        """What requests may ask of the target, in Ollama's words. May take a moment the first time."""
        capabilities = ["completion"]
        with suppress(MisuseError):
            self._format.require_tools()
            capabilities.append("tools")
        if self._format.marks_thinking:
            capabilities.append("thinking")
        return capabilities

    def choices(self, request: CompletionRequest) -> list[Choice]:
        """The answers that are asked for, those of one prompt together. May take a while for a long text. Raises
        FaultError for what cannot be made a prompt, and for options that cannot be had."""
        parameter = "messages" if request.kind is RequestKind.CHAT else "prompt"
        self._check_tools(request)
        self._check_bias(request.sampling)
        if request.top_logprobs is not None and not self._client.description.logprobs:
            raise wrong("logprobs", "this server's release gives no log-probabilities; leave 'logprobs' out")
        context = self.context
        choices: list[Choice] = []
        for source in request.prompts or (request.messages,):
            characters = sum(map(len, strings_in([source, request.tools, request.variables])))
            try:
                check_characters(characters, self._most_characters, context)
            except MisuseError as error:
                raise wrong(parameter, str(error), "context_length_exceeded") from error
            try:
                prompt = self._prompt(request, source)
            except MisuseError as error:
                raise wrong(parameter, str(error)) from error
            if not prompt.tokens:
                raise wrong(parameter, "the prompt is empty; give it some text")
            highest = max(prompt.tokens)
            if highest >= self._client.description.vocab_size:  # which some tokenizers write, as for images
                raise wrong(
                    parameter, f"the prompt holds token {highest}, which this target does not know; leave it out"
                )
            too_long = prompt_fault(len(prompt.tokens), context)
            if too_long:
                raise wrong(parameter, too_long, "context_length_exceeded")
            if request.tools and prompt.private is not None:
                raise wrong("tools", "private text is answered by the draft model alone, which calls no tools")
            constrained = self._constraint(request, prompt)
            if constrained.constraint is not None and prompt.private is not None:
                raise wrong(parameter, "private text is answered by the draft model alone, which follows no form")
            if request.top_logprobs is not None and prompt.private is not None:
                raise wrong("logprobs", "the target has no log-probabilities of private text; leave 'logprobs' out")
            echo = self._echo(source) if request.echo else ""
            choices += [self._choice(request, prompt, index, echo, constrained) for index in range(request.count)]
        return choices

    async def answer(self, choice: Choice, emit: Emit) -> FinishedAnswer:
        """Raises FaultError if nothing comes of it, or not all of it. Whoever is cancelled here ends the answer on
        the server too."""
        prompt = choice.prompt
        is_private = prompt.private is not None
        async with self._pool.conversation(self.model, prompt.tokens, only_once=is_private) as conversation:
            answering = AnswerOnConversation(self._client, conversation, choice, emit, self._on_link_change)
            return await answering.answer()

    async def show(
        self,
        prompt: SplitPrompt,
        options: AnswerOptions,
        on_begin: Callable[[ClientSession], None],
        on_tokens: TokenListener,
        on_link_change: LinkListener,
    ) -> Answer:
        """As `answer`, for a page that may show provisional text and retract it: what is drafted while the link is gone
        is verified when it is back, however long that takes. `on_begin` is called with the session, to look
        at."""

        def link_changed(state: LinkState) -> None:
            self._on_link_change(state)
            on_link_change(state)

        is_private = prompt.private is not None
        async with self._pool.conversation(self.model, prompt.tokens, only_once=is_private) as conversation:
            on_begin(conversation.session)
            usual = conversation.offline
            if not is_private:
                conversation.offline = replace(usual, wait_s=_ENDLESS_SECONDS)
            try:
                async with compiled(self._client.constrain, options.constraint):
                    return await to_its_end(
                        self._client.privacy_router(conversation), prompt, options, on_tokens, link_changed
                    )
            finally:
                conversation.offline = usual

    def _check_tools(self, request: CompletionRequest) -> None:
        """Raises FaultError if tools are used and the target's template or its calls are not known."""
        try:
            if request.tools:
                self._format.require_tools()
            elif any(map(has_tools, request.messages)):
                self._format.require_tool_messages()
        except MisuseError as error:
            raise wrong("tools" if request.tools else "messages", str(error), "unsupported_parameter") from error

    def _constraint(self, request: CompletionRequest, prompt: SplitPrompt) -> "_Constrained":
        """What the answer must match: what the request says, or calls where one must be made or their arguments must
        fit. Raises FaultError for a constraint that cannot be compiled, before any server is asked."""
        if request.must_call:
            name = "tools"
            try:
                calls = self._format.call_grammar(request.must_call, several=request.parallel_calls)
            except MisuseError as error:
                raise wrong("tool_choice", str(error), "unsupported_value") from error
            grammar = self._format.behind_thought(calls, prompt.tokens)
            constrained = _Constrained(Constraint(Grammar.LARK, grammar or calls), grammar is not None)
        elif request.strict_tools:
            name = "tools"
            constrained = self._strict(request, prompt)
        elif request.form is not None:
            name, form = request.form
            grammar = self._format.in_form(form, prompt.tokens) if request.kind is RequestKind.CHAT else None
            constraint = form if grammar is None else Constraint(Grammar.LARK, grammar)
            constrained = _Constrained(constraint, grammar is not None)
        else:
            return _FREE
        try:
            self._client.constrain(constrained.constraint)
        except PeerError as error:
            raise wrong(name, str(error)) from error
        return constrained

    def _strict(self, request: CompletionRequest, prompt: SplitPrompt) -> "_Constrained":
        """Free text, and calls whose arguments fit. Raises FaultError where that cannot be had and the endpoint is
        strict."""
        reason = "where calls of this model begin cannot be told, so none can be strict"
        if self._format.tells_where_calls_begin:
            grammar = self._format.strict_grammar(request.tools, request.strict_tools, prompt.tokens)
            constraint = Constraint(Grammar.LARK, grammar)
            try:
                check_length(constraint)
            except PeerError as error:
                reason = f"the schemas of all tools are too long for one constraint: {error}"
            else:
                return _Constrained(constraint, may_think=True)
        called = (tool["function"]["name"] for tool in request.tools)
        names = tuple(
            f"tools[{index}].function.strict" for index, name in enumerate(called) if name in request.strict_tools
        )
        if self._defaults.strict:
            raise wrong(names[0], f"{reason}; leave 'strict' out")
        return replace(_FREE, unheeded=names)

    def _check_bias(self, sampling: Sampling) -> None:
        """Raises FaultError for tokens that the target does not have."""
        most = max((token for token, _ in sampling.logit_bias), default=0)
        if most >= self._client.description.vocab_size:
            raise wrong("logit_bias", f"'logit_bias' names token {most}, which lies outside the vocabulary")

    def _choice(
        self, request: CompletionRequest, prompt: SplitPrompt, index: int, echo: str, constrained: "_Constrained"
    ) -> Choice:
        room = self.context - len(prompt.tokens)
        limit = room if request.max_new_tokens is None else min(request.max_new_tokens, room)
        sampling = request.sampling_of(index)
        try:
            options = replace(
                self._defaults.options,
                max_new_tokens=limit,
                rule=self._defaults.rule or default_rule(sampling.temperature),
                sampling=sampling,
                stop=request.stop,
                constraint=constrained.constraint,
                top_logprobs=request.top_logprobs,
            )
            self._client.require_rule(options.rule)
            form = self._form(request, prompt, may_think=constrained.may_think)
        except MisuseError as error:
            raise wrong(None, str(error)) from error
        # Whatever an app does for a call or with data cannot be undone, so the draft alone makes none.
        must_be_verified = bool(request.tools) or constrained.constraint is not None
        is_verified = must_be_verified or self._defaults.when_offline is WhenOffline.REFUSE
        note = self._note if request.is_read and request.top_logprobs is None else ""
        opening = self._format.opening(prompt.tokens) if request.kind is RequestKind.CHAT else ""
        return Choice(prompt, options, form, is_verified, echo, note, constrained.unheeded, opening)

    def _form(self, request: CompletionRequest, prompt: SplitPrompt, *, may_think: bool) -> TextForm:
        parser: AnswerParser = PlainText()
        shown: dict[int, str] = {}
        if request.kind is RequestKind.CHAT:
            parser = self._format.parser(prompt.tokens, request.tools, may_think=may_think)
            shown = self._format.shown_tokens(with_tools=bool(request.tools))
        spell = None if request.top_logprobs is None else self._spelling
        before = before_answer(self.tokenizer, prompt)
        return TextForm(request.stop, parser, shown, self.end_tokens, not request.parallel_calls, spell, before)

    def _prompt(self, request: CompletionRequest, source: Any) -> SplitPrompt:
        tokenizer = self._client.tokenizer
        if request.kind is RequestKind.CHAT:
            if any(map(has_marks, _strings_beside_contents(request))):
                raise MisuseError("private spans may stand in the content of messages alone")
            return chat_prompt(tokenizer, self._as_written(source), TemplateInput(request.tools, request.variables))
        if isinstance(source, str):
            return raw_prompt(tokenizer, source)
        if max(source) >= self._client.description.vocab_size:
            raise MisuseError(f"token {max(source)} lies outside the vocabulary")
        if has_marks(decode(tokenizer, source)):
            raise MisuseError("private spans must come as text, not as tokens")
        return SplitPrompt(source, is_raw=True)

    def _as_written(self, messages: Sequence[Message]) -> list[Message]:
        """Without the line below an earlier answer, which no model has written."""
        return [
            {**message, "content": message["content"].removesuffix(self._note)}
            if message["role"] == "assistant"
            else message
            for message in messages
        ]

    def _echo(self, source: Any) -> str:
        return source if isinstance(source, str) else decode(self._client.tokenizer, source)


def _strings_beside_contents(request: CompletionRequest) -> Iterator[str]:
    """What a template is given of a person's beside the contents of messages."""
    beside = [
        {name: value for name, value in message.items() if name != "content"}
        for message in request.messages
        if message["role"] != "assistant"
    ]
    return strings_in([beside, request.tools, request.variables])
