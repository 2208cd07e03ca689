"""From a sketch to words: the instruction a user would write and the answer a good assistant gives.

What may live here: instruction wording, answer layout, and the instance record that joins them with tests. It may
not know any family, tokenizer or model.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from training.demo.instance import InstanceDraw, Sketch
from training.demo.registry import Family

IRREGULAR_VERBS = {"check": "checks", "multiply": "multiplies", "add up": "adds up", "give back": "gives back"}

NAMED_INSTRUCTIONS = (
    "Write a Python function `{call}` that {does}.",
    "Write a function {call} that {does}.",
    "Create a Python function called `{call}` that {does}.",
    "Please write `{call}`, a function that {does}.",
    "I need a function `{call}` that {does}.",
    "Implement `{call}`. It {does}.",
    "Define a function `{call}` which {does}.",
    "Could you write a function `{call}` that {does}?",
    "The function `{call}` should {do}. Please write it.",
    "Write `{call}` in Python to {do}.",
    "I am looking for a function `{call}` that {does}.",
    "Complete `def {call}:` so that it {does}.",
)

PLAIN_INSTRUCTIONS = (
    "Write a Python function that {does}.",
    "Write a function that {does}.",
    "I need a Python function that {does}.",
    "Can you write a function that {does}?",
    "How do I {do} in Python?",
    "{Do}, in Python.",
    "Please write a function to {do}.",
    "Show me how to {do} in Python.",
    "I want to {do}. Write a Python function for it.",
    "Give me a function that {does}.",
)

# Other ways to say a task, by its verb; `{bare}` is the rest without its "the", where it begins with one.
PARAPHRASES: dict[str, tuple[tuple[str, str], ...]] = {
    "count": (("return", "the number of {bare}"), ("find", "the number of {bare}"), ("compute", "the count of {bare}")),
    "add up": (("sum", "{rest}"), ("return", "the sum of {bare_the}"), ("compute", "the total of {bare_the}")),
    "multiply": (("return", "the product of {bare_the}"), ("compute", "the product of {bare_the}")),
    "find": (("return", "{rest}"), ("give back", "{rest}"), ("get", "{rest}")),
    "return": (("give back", "{rest}"), ("produce", "{rest}"), ("compute", "{rest}")),
    "check": (("tell", "{rest}"), ("decide", "{rest}"), ("return", "{rest}"), ("test", "{rest}")),
    "list": (("return", "a list of {rest}"), ("collect", "{rest}")),
    "remove": (("drop", "{rest}"), ("delete", "{rest}")),
    "replace": (("exchange", "{rest}"),),
    "join": (("combine", "{rest}"), ("connect", "{rest}")),
    "split": (("separate", "{rest}"), ("divide", "{rest}")),
    "sort": (("order", "{rest}"), ("arrange", "{rest}")),
}
PARAPHRASED_SHARE = 0.5

CASUAL_SHARE = 0.25


@dataclass(frozen=True)
class Style:
    """What the instruction asks of the answer's form, and the sentence that asks for it."""

    request: str
    docstring: str
    hints: bool
    usage: bool
    weight: int


STYLES = (
    Style("", "line", True, True, 62),
    Style("Keep it short.", "none", True, False, 8),
    Style("Leave out the type hints.", "line", False, True, 8),
    Style("Leave out the docstring.", "none", True, True, 8),
    Style("Do not show an example.", "line", True, False, 8),
    Style("Include a docstring and an example.", "full", True, True, 6),
)


@dataclass(frozen=True)
class Instance:
    """One finished task: what is asked, a right answer, its code, and `assert candidate(...) == ...` lines."""

    family: str
    prompt: str
    answer: str
    code: str
    tests: tuple[str, ...]


def third_person(verb: str) -> str:
    """ "count" becomes "counts"; words after the verb stay ("add up" becomes "adds up")."""
    return IRREGULAR_VERBS.get(verb, verb + "s")


def make_instance(name: str, make: Family, seed: str, tested: bool = True) -> Instance:
    """The instance of family `name` drawn from `seed`; equal seeds give equal instances.

    Without `tested` it has no tests, which take longer than all the rest.
    """
    rng = random.Random(seed)
    draw = InstanceDraw(rng)
    sketch = make(draw)
    style = rng.choices(STYLES, weights=[style.weight for style in STYLES])[0]
    code = function_source(sketch, style)
    return Instance(
        family=name,
        prompt=instruction(sketch, style, draw),
        answer=answer(sketch, style, code),
        code=code,
        tests=tests(sketch, code) if tested else (),
    )


def instruction(sketch: Sketch, style: Style, draw: InstanceDraw) -> str:
    call = f"{sketch.name}({sketch.parameter.name})"
    template = draw.pick(PLAIN_INSTRUCTIONS if draw.plain else NAMED_INSTRUCTIONS)
    verb, rest = paraphrase(sketch.wording.verb, sketch.wording.rest, draw)
    do = f"{verb} {rest}"
    text = template.format(call=call, do=do, Do=do[0].upper() + do[1:], does=f"{third_person(verb)} {rest}")
    if style.request:
        return f"{text} {style.request}"
    return casual(text) if draw.plain and draw.rng.random() < CASUAL_SHARE else text


def paraphrase(verb: str, rest: str, draw: InstanceDraw) -> tuple[str, str]:
    """The task as it is, or in other words."""
    if draw.rng.random() >= PARAPHRASED_SHARE:
        return verb, rest
    bare = rest.removeprefix("the ")
    options = [(to, form) for to, form in PARAPHRASES.get(verb, ()) if bare != rest or "bare" not in form]
    if not options:
        return verb, rest
    to, form = draw.pick(options)
    return to, form.format(rest=rest, bare=bare, bare_the=f"the {bare}")


def casual(text: str) -> str:
    """The instruction as typed in a hurry: no capital at the start, no full stop at the end."""
    return text[0].lower() + text[1:].removesuffix(".")


def answer(sketch: Sketch, style: Style, code: str) -> str:
    """How it works, which is the plan, and then the code."""
    block = code
    if style.usage:
        block += f"\n\n\nprint({sketch.name}({literal(sketch.example)}))"
    return f"{sketch.wording.how}\n\n```python\n{block}\n```"


def function_source(sketch: Sketch, style: Style) -> str:
    header = f"def {sketch.name}({sketch.parameter.name}):"
    if style.hints:
        header = f"def {sketch.name}({sketch.parameter.name}: {sketch.parameter.annotation}) -> {sketch.returns}:"
    lines = [*docstring(sketch, style), *sketch.body]
    return "\n".join([header, *(f"    {line}" if line else "" for line in lines)])


def docstring(sketch: Sketch, style: Style) -> list[str]:
    summary = f"{sketch.wording.verb.capitalize()} {sketch.wording.rest}."
    if style.docstring == "none":
        return []
    if style.docstring == "line":
        return [f'"""{summary}"""']
    note = f"    {sketch.parameter.name}: {sketch.parameter.note}"
    return [f'"""{summary}', "", "Args:", note, "", "Returns:", f"    {sketch.wording.result}", '"""']


def literal(value: object) -> str:
    """A Python literal with double-quoted strings, as formatters write it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def tests(sketch: Sketch, code: str) -> tuple[str, ...]:
    """Assertions on `candidate`, with expected values from running the reference code."""
    scope: dict[str, object] = {}
    exec(code, scope)
    reference = scope[sketch.name]
    assert callable(reference)
    lines = []
    for case in sketch.cases():
        lines.append(f"assert candidate({literal(case)}) == {reference(case)!r}")
    return tuple(lines)
