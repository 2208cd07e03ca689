"""What a request says of the form of its answer, read into a constraint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.endpoint.answer_parsers.answer_grammars import in_form
from client.endpoint.faults import FaultError
from client.endpoint.ollama import read_ollama_chat
from client.endpoint.openai_requests import read_chat, read_completion
from common.models.checkpoint import load_tokenizer
from common.models.shipped import shipped_family
from common.protocol.constraint import Grammar, check_length
from common.protocol.messages import Constraint
from common.protocol.sampling import Sampling
from common.sampling.grammar import Grammars

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "add"}}


def form(**more):
    return read_chat(CHAT | more, Sampling()).form


def in_schema(value) -> Constraint:
    return Constraint(Grammar.JSON_SCHEMA, json.dumps(value))


@pytest.mark.parametrize(
    ("asked", "constraint"),
    [
        ({"response_format": {"type": "json_object"}}, in_schema({"type": "object"})),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                }
            },
            in_schema(SCHEMA),
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, in_schema({"type": "object"})),
        ({"structured_outputs": {"json": SCHEMA, "regex": None}}, in_schema(SCHEMA)),
        ({"structured_outputs": {"json_object": True}}, in_schema({"type": "object"})),
        ({"structured_outputs": {"regex": "a+"}}, Constraint(Grammar.REGEX, "a+")),
        ({"guided_regex": "a+"}, Constraint(Grammar.REGEX, "a+")),
        ({"guided_json": json.dumps(SCHEMA)}, in_schema(SCHEMA)),
        ({"guided_grammar": 'start: "a"'}, Constraint(Grammar.LARK, 'start: "a"')),
    ],
)
def test_every_spelling_becomes_a_constraint(asked, constraint):
    (name,) = asked
    assert form(**asked) == (name, constraint)
    assert read_completion({"model": "m", "prompt": "Hi", **asked}, Sampling()).form == (name, constraint)


@pytest.mark.parametrize(
    "nothing", [{}, {"response_format": {"type": "text"}}, {"structured_outputs": {}}, {"guided_json": None}]
)
def test_without_a_form_nothing_is_constrained(nothing):
    assert form(**nothing) is None


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
            "response_format.json_schema.schema",
        ),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"sql": "a"}}, "structured_outputs"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a", 3]}, "guided_choice"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
        ({"guided_regex": "a", "tools": [TOOL]}, "guided_regex"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias"),
        ({"presence_penalty": 2.5}, "presence_penalty"),
        ({"frequency_penalty": "much"}, "frequency_penalty"),
    ],
)
def test_what_contradicts_itself_is_named(asked, parameter):
    with pytest.raises(FaultError) as refused:
        form(**asked)
    assert refused.value.fault.parameter == parameter


def test_a_form_goes_with_tools_that_may_not_be_called():
    assert form(guided_regex="a", tools=[TOOL], tool_choice="none") is not None


def test_penalties_and_bias_are_sampling():
    asked = read_chat(
        CHAT | {"presence_penalty": 1, "frequency_penalty": -0.5, "logit_bias": {"7": -2, "3": 5}}, Sampling()
    )
    assert asked.sampling == Sampling(presence_penalty=1.0, frequency_penalty=-0.5, logit_bias=((3, 5.0), (7, -2.0)))


@pytest.mark.parametrize(("said", "constraint"), [("json", in_schema({"type": "object"})), (SCHEMA, in_schema(SCHEMA))])
def test_ollamas_format_is_a_response_format(said, constraint):
    assert read_ollama_chat(CHAT | {"format": said}, Sampling()).form == ("response_format", constraint)
    assert read_ollama_chat(CHAT | {"format": ""}, Sampling()).form is None


TARGET = shipped_family("demo").target
TOKENIZER = load_tokenizer(TARGET)
GRAMMARS = Grammars(TOKENIZER, len(TOKENIZER), {TOKENIZER.eos_token_id})


@given(
    choices=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6), min_size=1, max_size=3
    )
)
def test_choices_of_any_text_are_what_may_be_answered(choices):
    _, constraint = form(guided_choice=choices)
    as_grammar = GRAMMARS(Constraint(Grammar.LARK, in_form(constraint)))
    for choice in choices:
        tokens = TOKENIZER(choice, add_special_tokens=False)["input_ids"]
        if TOKENIZER.decode(tokens) == choice:
            assert GRAMMARS(constraint).allowed(tokens)[TOKENIZER.eos_token_id]
            assert as_grammar.allowed(tokens)[TOKENIZER.eos_token_id]


WORDS = st.text(st.sampled_from("aZ09é漢 _-,"), min_size=1, max_size=20)


@given(choices=st.lists(WORDS, min_size=1, max_size=8))
def test_choices_of_words_are_as_long_as_they_are(choices):
    _, constraint = form(guided_choice=choices)
    assert constraint.text == "|".join(choices)


def test_thousands_of_choices_are_not_too_long():
    choices = [f"section {index}, part b" for index in range(1400)]
    _, constraint = form(guided_choice=choices)
    check_length(constraint)
    tokens = TOKENIZER(choices[-1], add_special_tokens=False)["input_ids"]
    assert GRAMMARS(constraint).allowed(tokens)[TOKENIZER.eos_token_id]
