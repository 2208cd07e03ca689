"""Renders a target's chat template as transformers does, character for character; a test compares the two.

A template is a program that a server has sent: it runs in jinja2's sandbox, sees nothing but plain values, and cannot
reach anything behind them. It may not know tokenizers, and may not import transformers, which takes seconds.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

_SAFE_JINJA = (3, 1, 6)
"""Older versions have known ways out of the sandbox."""


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    variables: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] | None = None,
    asking: bool = True,
    now: datetime | None = None,
) -> str:
    """The conversation, with `asking` up to where the answer begins. Messages have a role and a content, and what else
    the template asks for, as `tool_calls`; `variables` are the names of special tokens and what a request sets; `tools`
    are functions as OpenAI's requests describe them. `now` is what templates that write the date take for it.

    Raises whatever the template does, which may be anything.
    """
    if not messages:
        raise ValueError("Cannot apply chat template to an empty conversation. Provide at least one message.")
    rendered: str = _compiled(template).render(
        {
            **_plain(variables),
            "messages": [_with_reasoning(_plain(message)) for message in messages],
            "tools": _plain(tools),
            "documents": None,
            "add_generation_prompt": asking,
            "strftime_now": (now or datetime.now()).strftime,
        }
    )
    return rendered


def _plain(value: Any) -> Any:
    """A copy that holds nothing but JSON's types, whose methods the sandbox knows."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """A message's reasoning under all the names that templates read, as transformers has it."""
    names = ("reasoning_content", "thinking", "reasoning")
    reasoning = next((message[name] for name in names if message.get(name) is not None), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


@lru_cache(maxsize=4)
def _compiled(template: str) -> Any:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit()) < _SAFE_JINJA:
        raise ImportError(f"jinja2 {jinja2.__version__} is too old to run templates safely; install 3.1.6 or newer")

    class Generation(jinja2.ext.Extension):
        """`{% generation %}` marks answers for training, and writes what it encloses."""

        tags = {"generation"}  # noqa: RUF012 - as its base class has it

        def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_enclosed"), [], [], body).set_lineno(line)

        def _enclosed(self, caller: Any) -> Any:
            return caller()

    class Dict:
        """`dict` without what else the type offers."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args, **kwargs)

    class Namespace(jinja2.utils.Namespace):
        """`namespace` without names by which Python's internals are reached."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            self, values = args[0], dict(*args[1:], **kwargs)
            for name in values:
                _check(name)
            jinja2.utils.Namespace.__init__(self, values)

        def __setitem__(self, name: str, value: Any) -> None:
            _check(name)
            super().__setitem__(name, value)

    def _check(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(
                f"Chat templates cannot store underscore-prefixed attributes on a namespace, but got {name!r}. "
                "Please rename the attribute."
            )

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": raise_exception,
        "dict": Dict(),
        "namespace": Namespace,
    }
    return environment.from_string(template)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike jinja2's own, escapes nothing for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
