"""Reads the bodies of OpenAI's chat and completion requests.

Pure: JSON values in, frozen data out, or a fault that names the parameter. It may not know tokenizers, sessions
or HTTP.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from client.endpoint import openai_messages, parameters, structured
from client.endpoint.faults import wrong
from client.endpoint.openai_messages import Message, Tool, ToolChoice
from client.endpoint.parameters import Reader
from common.protocol.logprobs import MAX_TOP_LOGPROBS
from common.protocol.messages import Constraint
from common.protocol.sampling import MAX_BIASED_TOKENS, REPETITION_PENALTIES, TEMPERATURES, Sampling

MOST_CHOICES = 32
"""Answers that one request may ask for: half of the requests that may wait."""

DRAWN_SEED_BITS = 52
"""Of a seed that is drawn for a request: with a choice's index added it is still a whole number that JavaScript's
numbers hold, so that whoever is told it can ask for the same answer again."""

_SEEDS = 1 << 64
_LEAST_TOP_P = 1e-6  # less than the likeliest token of any vocabulary has
_COMPLETION_TOKENS = 16  # OpenAI's own default
_MOST_TOKEN_DIGITS = 20  # of a token's number; int refuses a text of thousands

_IGNORED = frozenset(("metadata", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"))
"""Parameters without any influence on the answer."""

_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "suffix": ("",),
}
"""Unsupported parameters, and the values of each that ask for nothing."""

_TEMPLATE_ARGUMENTS = frozenset(
    (
        *("add_generation_prompt", "chat_template", "continue_final_message", "conversation", "documents"),
        *("max_length", "messages", "padding", "return_assistant_tokens_mask", "return_dict", "return_tensors"),
        *("sanitize_control_tokens", "self", "tokenize", "tokenizer_kwargs", "tools", "truncation"),
    )
)
"""What `chat_template_kwargs` may not set: what the request says elsewhere, and how transformers renders."""


class RequestKind(StrEnum):
    CHAT = "chat"
    COMPLETION = "completion"


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """Either `messages` or `prompts`, texts or their tokens, are what is answered, each prompt `count` times.
    `max_new_tokens` is None for all that the context has room for. `tools` are those that may be called, `must_call`
    those of which one must be, `strict_tools` the names of those whose arguments must fit their schemas, `variables`
    what the chat template is given. `echo`: the answer begins with its prompt.
    `is_read`: a person reads the text as it comes, and no app takes it for data.
    `form` is what the answer must match, with the name of the parameter that says so. `top_logprobs`: how many of the
    likeliest tokens are told beside each token's own log-probability, None for neither. `ignored` names what was asked
    for and is not done."""

    kind: RequestKind
    model: str
    sampling: Sampling
    messages: tuple[Message, ...] = ()
    prompts: tuple[str | tuple[int, ...], ...] = ()
    count: int = 1
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    echo: bool = False
    is_read: bool = False
    tools: tuple[Tool, ...] = ()
    must_call: tuple[Tool, ...] = ()
    strict_tools: frozenset[str] = frozenset()
    parallel_calls: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)
    form: tuple[str, Constraint] | None = None
    top_logprobs: int | None = None
    ignored: tuple[str, ...] = ()

    def sampling_of(self, choice: int) -> Sampling:
        """Of the choice of that index among those of one prompt: its seed is the request's and the index."""
        return replace(self.sampling, seed=(self.sampling.seed + choice) % _SEEDS)


def read_chat(body: Any, defaults: Sampling, *, strict: bool = False) -> CompletionRequest:
    """Raises FaultError for what is no chat request, or asks for something unsupported; if `strict`, also for
    parameters that are not known."""
    fields, ignored = _fields(body, _CHAT, strict=strict)
    limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
    request = _common(RequestKind.CHAT, fields, defaults, limit)
    choice = fields.get("tool_choice", ToolChoice())
    tools = fields.get("tools", ()) if choice.may else ()
    must_call = _called(choice, tools)
    if request.form and tools:
        raise wrong(
            request.form[0],
            f"with '{request.form[0]}' no tool could be called; leave 'tools' out, or set 'tool_choice' to 'none'",
        )
    return replace(
        request,
        messages=fields["messages"],
        tools=tools,
        must_call=must_call,
        strict_tools=openai_messages.strict_functions(body.get("tools")) if tools else frozenset(),
        parallel_calls=fields.get("parallel_tool_calls", True),
        variables=_variables(fields),
        top_logprobs=_top_logprobs(fields),
        ignored=ignored,
    )


def _called(choice: ToolChoice, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those of which one must be called; none where none must."""
    if not choice.must:
        return ()
    called = tuple(tool for tool in tools if choice.function in ("", tool["function"]["name"]))
    if not called:
        missing = f"no function '{choice.function}'" if choice.function else "no functions to choose from"
        raise wrong("tool_choice", f"'tool_choice' asks for a call, but 'tools' has {missing}")
    return called


def read_completion(body: Any, defaults: Sampling, *, strict: bool = False) -> CompletionRequest:
    """As `read_chat`, for plain text."""
    fields, ignored = _fields(body, _COMPLETION, strict=strict)
    request = _common(RequestKind.COMPLETION, fields, defaults, fields.get("max_tokens", _COMPLETION_TOKENS))
    prompts, count = fields["prompt"], request.count
    asked = len(prompts) * count
    if asked > MOST_CHOICES:
        raise wrong("prompt", f"'prompt' and 'n' ask for {asked} answers; ask for at most {MOST_CHOICES} at once")
    if fields.get("best_of", count) != count:
        raise wrong("best_of", "'best_of' must be as large as 'n': all answers are returned")
    top, echo = fields.get("logprobs"), fields.get("echo", False)
    if echo and top is not None:
        raise wrong("echo", "a prompt has no log-probabilities here; leave 'echo' or 'logprobs' out")
    return replace(request, prompts=prompts, echo=echo, top_logprobs=top, ignored=ignored)


def _common(kind: RequestKind, fields: Mapping[str, Any], defaults: Sampling, limit: int | None) -> CompletionRequest:
    drawn = {name: fields[name] for name in _SAMPLING if name in fields}
    return CompletionRequest(
        kind,
        fields["model"],
        replace(defaults, **drawn),
        count=fields.get("n", 1),
        max_new_tokens=limit,
        stop=fields.get("stop", ()),
        stream=fields.get("stream", False),
        include_usage=fields.get("stream_options", {}).get("include_usage", False),
        form=structured.the_constraint(fields),
    )


def _top_logprobs(fields: Mapping[str, Any]) -> int | None:
    """A chat's."""
    if fields.get("logprobs", False):
        return int(fields.get("top_logprobs", 0))
    if fields.get("top_logprobs", 0):
        raise wrong("top_logprobs", "'top_logprobs' needs 'logprobs' to be true")
    return None


def _number_of_logprobs(name: str, value: Any) -> int | None:
    """A completion's."""
    return None if value is False else parameters.whole(0, MAX_TOP_LOGPROBS)(name, value)


def _variables(fields: Mapping[str, Any]) -> dict[str, Any]:
    variables = dict(fields.get("chat_template_kwargs", {}))
    effort = fields.get("reasoning_effort")
    if effort is not None and variables.setdefault("reasoning_effort", effort) != effort:
        raise wrong("reasoning_effort", "'reasoning_effort' and 'chat_template_kwargs' contradict each other")
    return variables


@dataclass(frozen=True, slots=True)
class _ParameterTable:
    """The parameters of a kind of request that are read, and those that must be there."""

    readers: Mapping[str, Reader]
    required: Sequence[str]


def _fields(body: Any, form: _ParameterTable, *, strict: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is given, and the names of what is ignored."""
    if not isinstance(body, dict):
        raise wrong(None, "the body must be a JSON object")
    given = {name: value for name, value in body.items() if value is not None}
    for name in form.required:
        if name not in given:
            raise wrong(name, f"'{name}' is missing", "missing_required_parameter")
    fields = {}
    for name, value in given.items():
        if name in form.readers:
            fields[name] = form.readers[name](name, value)
        elif name in _HARMLESS and value not in _HARMLESS[name]:
            raise wrong(name, f"'{name}' is not supported here; leave it out", "unsupported_parameter")
    ignored = _unknown(given, form)
    if strict and ignored:
        name = ignored[0]
        raise wrong(name, f"the parameter '{name}' is not known here; leave it out", "unsupported_parameter")
    return fields, ignored


def _unknown(given: Mapping[str, Any], form: _ParameterTable) -> tuple[str, ...]:
    """Names of what is asked for and not done."""
    names = [name for name in given if not (name in form.readers or name in _HARMLESS or name in _IGNORED)]
    options = given.get("stream_options", {}) if "stream_options" in form.readers else {}
    asked = (name for name, value in options.items() if value is not None)
    names += [f"stream_options.{name}" for name in asked if name not in _STREAM_OPTIONS]
    return tuple(names)


def _stream_options(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(name, "'stream_options' must be an object")
    given = {name: option for name, option in value.items() if option is not None}
    parameters.flag("stream_options.include_usage", given.get("include_usage", False))
    return given


def _template_variables(name: str, value: Any) -> dict[str, Any]:
    variables = parameters.json_object(name, value)
    for reserved in sorted(_TEMPLATE_ARGUMENTS & variables.keys()):
        raise wrong(name, f"'{name}' cannot set '{reserved}'; leave it out")
    return variables


def _prompts(name: str, value: Any) -> tuple[str | tuple[int, ...], ...]:
    """A text, or its tokens, or a list of texts or of lists of tokens."""
    several = value if isinstance(value, list) and value and isinstance(value[0], str | list) else [value]
    if isinstance(several[0], str):
        return tuple(parameters.text(name, each) for each in several)
    for each in several:
        if not isinstance(each, list) or not each or not all(map(_is_token, each)):
            raise wrong(name, "'prompt' must be a text or a list of tokens, or a list of one of them")
    return tuple(tuple(each) for each in several)


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_STREAM_OPTIONS = ("include_usage", "include_obfuscation")


def _logit_bias(name: str, value: Any) -> tuple[tuple[int, float], ...]:
    """OpenAI's: numbers of tokens, as strings, and what is added to their logits."""
    bias = parameters.json_object(name, value)
    if len(bias) > MAX_BIASED_TOKENS:
        raise wrong(name, f"'{name}' may name at most {MAX_BIASED_TOKENS} tokens")
    if not all(token.isdecimal() and token.isascii() and len(token) <= _MOST_TOKEN_DIGITS for token in bias):
        raise wrong(name, f"'{name}' must map numbers of tokens to numbers from -100 to 100")
    read = parameters.number(-100, 100)
    return tuple(sorted((int(token), read(f"{name}.{token}", each)) for token, each in bias.items()))


def _temperature(name: str, value: Any) -> float:
    """Below the least that there is, the likeliest token has all the probability anyway."""
    least, most = TEMPERATURES
    read = parameters.number(0, most)(name, value)
    return read if read >= least else 0.0


def _top_p(name: str, value: Any) -> float:
    """0 keeps the likeliest token alone, as the least share does."""
    return parameters.number(0, 1)(name, value) or _LEAST_TOP_P


def _top_k(name: str, value: Any) -> int:
    """-1 keeps all tokens in vLLM, as 0 does here and elsewhere."""
    return max(0, int(parameters.whole(-1)(name, value)))


_SAMPLING: Mapping[str, Reader] = {
    "temperature": _temperature,
    "top_p": _top_p,
    "min_p": parameters.number(0, 1),
    "top_k": _top_k,
    "repetition_penalty": parameters.number(*REPETITION_PENALTIES),
    "seed": parameters.seed,
    "presence_penalty": parameters.number(-2, 2),
    "frequency_penalty": parameters.number(-2, 2),
    "logit_bias": _logit_bias,
}
_SHARED: Mapping[str, Reader] = {
    "model": parameters.text,
    "n": parameters.whole(1, MOST_CHOICES),
    "stop": parameters.stop,
    "stream": parameters.flag,
    "stream_options": _stream_options,
    "max_tokens": parameters.whole(1),
    **_SAMPLING,
    **structured.READERS,
}
_CHAT = _ParameterTable(
    {
        **_SHARED,
        "messages": openai_messages.messages,
        "max_completion_tokens": parameters.whole(1),
        "tools": openai_messages.tools,
        "tool_choice": openai_messages.tool_choice,
        "parallel_tool_calls": parameters.flag,
        "logprobs": parameters.flag,
        "top_logprobs": parameters.whole(0, MAX_TOP_LOGPROBS),
        "reasoning_effort": parameters.text,
        "chat_template_kwargs": _template_variables,
    },
    ("model", "messages"),
)
_COMPLETION = _ParameterTable(
    {
        **_SHARED,
        "prompt": _prompts,
        "echo": parameters.flag,
        "best_of": parameters.whole(1),
        "logprobs": _number_of_logprobs,
    },
    ("model", "prompt"),
)
