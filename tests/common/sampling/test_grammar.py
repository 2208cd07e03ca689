"""Which tokens may follow in a constrained answer: real grammars over the demo target's tokenizer."""

import json
import random
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.models.checkpoint import load_config, load_tokenizer
from common.models.shipped import shipped_family
from common.models.tokenizer import plain_tokenizer
from common.protocol.constraint import Grammar
from common.protocol.errors import PeerError
from common.protocol.messages import Constraint
from common.sampling.grammar import Grammars

TARGET = shipped_family("demo").target
TOKENIZER = load_tokenizer(TARGET)
VOCABULARY = load_config(TARGET).vocab_size
END = TOKENIZER.eos_token_id

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "long tag"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
CONSTRAINTS = {
    "person": Constraint(Grammar.JSON_SCHEMA, json.dumps(PERSON)),
    "regex": Constraint(Grammar.REGEX, "(yes|no|perhaps)( [0-9]{1,3}){0,3}"),
    "lark": Constraint(Grammar.LARK, 'start: "<" start ">" | /[a-c]{1,4}/'),
}


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(TOKENIZER, VOCABULARY, {END})


def person_is_right(text: str) -> bool:
    found = json.loads(text)
    return (
        list(found) == ["name", "age", "tags"]
        and len(found["name"]) <= 12
        and 0 <= found["age"] <= 130
        and len(found["tags"]) <= 3
        and set(found["tags"]) <= {"a", "b", "long tag"}
    )


def nests(text: str) -> bool:
    depth = len(text) - len(text.lstrip("<"))
    return re.fullmatch("<" * depth + "[a-c]{1,4}" + ">" * depth, text) is not None


MATCHES: dict[str, Any] = {
    "person": person_is_right,
    "regex": re.compile(r"(yes|no|perhaps)( [0-9]{1,3}){0,3}").fullmatch,
    "lark": nests,
}


def walk(constraint, rng: random.Random, most: int = 120) -> list[int]:
    """A random answer that the constraint allows, up to an end token or `most` tokens."""
    answer: list[int] = []
    while len(answer) < most and (not answer or answer[-1] != END):
        allowed = np.flatnonzero(constraint.allowed(answer))
        # Short tokens rarely close anything: the end is preferred where it may come.
        answer.append(END if END in allowed and rng.random() < 0.5 else int(rng.choice(allowed)))
    return answer


@pytest.mark.parametrize("name", CONSTRAINTS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_whatever_is_chosen_among_allowed_tokens_matches(name, seed):
    grammars = Grammars(TOKENIZER, VOCABULARY, {END}) if seed % 5 == 0 else _SHARED
    answer = walk(grammars(CONSTRAINTS[name]), random.Random(seed))
    if answer[-1] == END:
        assert MATCHES[name](TOKENIZER.decode(answer[:-1]))


_SHARED = Grammars(TOKENIZER, VOCABULARY, {END})


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_allowed_tokens_depend_on_the_answer_alone(seed):
    """Asked for prefixes of several answers in any order, forward and back, as walks, drafters and resumed sessions
    ask."""
    rng = random.Random(seed)
    used = _SHARED(CONSTRAINTS["person"])
    answers = [walk(_SHARED(CONSTRAINTS["person"]), rng) for _ in range(2)]
    for _ in range(12):
        answer = rng.choice(answers)
        prefix = answer[: rng.randint(0, len(answer))]
        if rng.random() < 0.2:
            prefix = [*prefix, rng.randrange(VOCABULARY)]
        fresh = _SHARED(CONSTRAINTS["person"])
        assert np.array_equal(used.allowed(prefix), fresh.allowed(prefix))


def too_long_chain(references: int) -> str:
    """A schema whose definitions refer to each other, one after the other."""
    chained = {str(index): {"$ref": f"#/$defs/{index + 1}"} for index in range(references)}
    return json.dumps({"$defs": {**chained, str(references): {"type": "null"}}, "$ref": "#/$defs/0"})


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (Grammar.JSON_SCHEMA, too_long_chain(1500)),
        (Grammar.LARK, f"start: form\nform: %json {too_long_chain(500)}"),
        (Grammar.REGEX, "a" * 33_000),
    ],
)
def test_what_is_too_long_is_refused_before_it_is_compiled(grammars, monkeypatch, grammar, text):
    """A chain of 3,000 references ends the process that compiles it."""
    monkeypatch.setattr(grammars, "_compile", lambda *_: pytest.fail("it is compiled"))
    with pytest.raises(PeerError, match="more than the"):
        grammars(Constraint(grammar, text))


def test_forced_tokens_are_those_without_a_choice(grammars):
    constraint = grammars(CONSTRAINTS["person"])
    forced = constraint.forced([], 64)
    assert TOKENIZER.decode(list(forced)) == '{"name":'
    for count, token in enumerate(forced):
        assert np.flatnonzero(constraint.allowed(forced[:count])).tolist() == [token]
    assert np.count_nonzero(constraint.allowed(forced)) > 1
    assert constraint.forced([], 2) == forced[:2]


def test_nothing_is_forced_behind_an_end_token(grammars):
    constraint = grammars(Constraint(Grammar.REGEX, "ab"))
    assert constraint.forced([], 64) == (*TOKENIZER("ab", add_special_tokens=False)["input_ids"], END)


def test_nothing_is_forced_behind_the_end(grammars):
    constraint = grammars(Constraint(Grammar.REGEX, "ab"))
    answer = constraint.forced([], 64)
    assert answer[-1] == END
    assert constraint.forced(answer, 64) == ()


REPEATS = Constraint(Grammar.REGEX, "(a{1,1000}){1,1000}b")
"""So many states that the library gives up after a hundred tokens."""


def farthest(constraint) -> int:
    """How many tokens may be chosen before the parser gives up."""
    answer: list[int] = []
    try:
        while len(answer) < 400:
            answer.append(next(token for token in np.flatnonzero(constraint.allowed(answer)).tolist() if token != END))
    except PeerError:
        pass
    return len(answer)


def test_an_answer_goes_as_far_whatever_others_have_used_up():
    alone = farthest(Grammars(TOKENIZER, VOCABULARY, {END})(REPEATS))
    assert 10 < alone < 400
    shared = Grammars(TOKENIZER, VOCABULARY, {END})
    assert [farthest(shared(REPEATS)) for _ in range(3)] == [alone] * 3


def test_a_parser_that_gives_up_says_so(grammars):
    constraint = grammars(REPEATS)
    for _ in range(2):
        with pytest.raises(PeerError, match="too complex to go on"):
            constraint.allowed(TOKENIZER("a" * 400, add_special_tokens=False)["input_ids"])


WORDS = ["".join(map(chr, (97 + index % 26, 97 + index // 26 % 26, 97 + index // 676))) for index in range(3500)]
LEGITIMATE = {
    "thousands of words": {"enum": WORDS},
    "nested objects": {
        "type": "object",
        "properties": {name: PERSON | {"properties": {**PERSON["properties"], name: PERSON}} for name in WORDS[:25]},
        "required": WORDS[:25],
    },
    "dates and patterns": {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "id": {"type": "string", "format": "uuid"},
            "code": {"type": "string", "allOf": [{"pattern": "^[A-Z]{2}-[0-9]+$"}, {"pattern": "7"}, {"maxLength": 9}]},
            "text": {"type": "string", "minLength": 20, "maxLength": 8000},
        },
        "required": ["when", "day", "id", "code", "text"],
    },
    "recursive definitions": {
        "$defs": {
            name: {
                "type": "object",
                "properties": {
                    "name": {"enum": WORDS[:9]},
                    "within": {
                        "type": "array",
                        "items": {"anyOf": [{"$ref": f"#/$defs/{each}"} for each in WORDS[:9]]},
                    },
                },
                "required": ["name", "within"],
            }
            for name in WORDS[:9]
        },
        "$ref": f"#/$defs/{WORDS[0]}",
    },
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_large_schemas_that_people_write_are_compiled(grammars, name):
    constraint = grammars(Constraint(Grammar.JSON_SCHEMA, json.dumps(LEGITIMATE[name])))
    text = TOKENIZER.decode([token for token in walk(constraint, random.Random(2), 400) if token != END])
    assert text[:1] in ('"', "{")
    if name == "thousands of words":
        assert json.loads(text) in WORDS


def test_a_grammar_that_leads_nowhere_is_not_called_too_complex(grammars):
    """Which is known only where the answer comes there."""
    constraint = grammars(Constraint(Grammar.LARK, 'start: "ab" NOTHING\nNOTHING: /a/ & /b/'))
    begun = TOKENIZER("ab", add_special_tokens=False)["input_ids"]
    assert constraint.allowed([])[begun[0]]
    with pytest.raises(PeerError, match="neither end nor go on: a part of it matches no text"):
        constraint.allowed(begun)


def test_a_tokenizer_that_the_library_cannot_read_is_not_blamed_on_the_constraint():
    broken = plain_tokenizer(TOKENIZER)
    broken._backend = SimpleNamespace(to_str=lambda: "{}", get_vocab=broken._backend.get_vocab)
    with pytest.raises(PeerError, match="its tokenizer"):
        Grammars(broken, VOCABULARY, {END})(CONSTRAINTS["regex"])


def test_behind_what_is_forbidden_an_answer_can_only_end(grammars):
    constraint = grammars(CONSTRAINTS["regex"])
    wrong = int(np.flatnonzero(~constraint.allowed([]))[-1])
    assert wrong != END
    assert np.flatnonzero(constraint.allowed([wrong])).tolist() == [END]


def test_every_end_token_may_end_an_answer():
    other = END + 1
    constraint = Grammars(TOKENIZER, VOCABULARY, {END, other})(Constraint(Grammar.REGEX, "ab"))
    answer = TOKENIZER("ab", add_special_tokens=False)["input_ids"]
    assert np.flatnonzero(constraint.allowed(answer)).tolist() == [END, other]


def test_logits_beyond_the_vocabulary_are_never_allowed():
    padded = Grammars(TOKENIZER, VOCABULARY + 40, {END})(CONSTRAINTS["regex"])
    assert len(padded.allowed([])) == VOCABULARY + 40
    assert not padded.allowed([])[VOCABULARY:].any()


def test_tokens_without_logits_are_never_allowed():
    """Gemma 3's tokenizer has a token for images, which its smallest models have no logits for."""
    extended = load_tokenizer(TARGET)
    extended.add_tokens(["yes", "no", "perhaps", "<image_soft_token>"])
    for tokenizer in (extended, plain_tokenizer(extended)):
        for constraint in CONSTRAINTS.values():
            cut, own = Grammars(tokenizer, VOCABULARY, {END})(constraint), _SHARED(constraint)
            answer = walk(own, random.Random(5))
            prefixes = [answer[:n] for n in range(len(answer) + 1)]
            assert all(np.array_equal(cut.allowed(each), own.allowed(each)) for each in prefixes)
            assert all(cut.forced(each, 8) == own.forced(each, 8) for each in prefixes)


def test_a_client_without_transformers_gets_the_same():
    plain = Grammars(plain_tokenizer(TOKENIZER), VOCABULARY, {END})(CONSTRAINTS["person"])
    theirs = _SHARED(CONSTRAINTS["person"])
    answer = walk(theirs, random.Random(3))
    assert all(np.array_equal(plain.allowed(answer[:n]), theirs.allowed(answer[:n])) for n in range(len(answer)))


@pytest.mark.parametrize(
    ("grammar", "text", "part"),
    [
        (Grammar.JSON_SCHEMA, "{", "JSON schema .* line 1"),
        (Grammar.JSON_SCHEMA, '{"properties": {"a": {"type": "strin"}}}', "JSON schema .* strin"),
        (Grammar.JSON_SCHEMA, '{"not": {}}', "JSON schema .*not"),
        (Grammar.JSON_SCHEMA, "[1]", "JSON schema .* object"),
        (Grammar.JSON_SCHEMA, "false", "JSON schema .* object"),
        (Grammar.JSON_SCHEMA, '{"type": "integer", "minimum": 5, "maximum": 3}', "JSON schema .* minimum"),
        (
            Grammar.JSON_SCHEMA,
            '{"allOf": [{"type": "integer"}, {"type": "string"}]}',
            "JSON schema .* incompatible types",
        ),
        (
            Grammar.JSON_SCHEMA,
            '{"type": "object", "properties": {"a": false}, "required": ["a"]}',
            "JSON schema .* 'a'",
        ),
        (Grammar.LARK, 'start: start "a"', "grammar .* matches no answer"),
        (Grammar.REGEX, "a(b", "regular expression .* unclosed group"),
        (Grammar.REGEX, r"[^\s\S]", "regular expression .* matches no answer"),
        (Grammar.LARK, "start: foo", "grammar .* foo"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_its_part(grammars, grammar, text, part):
    with pytest.raises(PeerError, match=part) as refused:
        grammars(Constraint(grammar, text))
    assert "\n" not in str(refused.value)
