"""Forced calls: whatever a target chooses under a syntax's grammar, its parser finds nothing but whole calls."""

import json
from random import Random

import numpy as np
import pytest

from client.endpoint.answer_parsers.answer_format import SYNTAXES, AnswerFormat
from client.endpoint.answer_parsers.calls import CallParser
from client.endpoint.answer_parsers.pieces import ToolCall
from common.models.checkpoint import load_tokenizer
from common.models.shipped import shipped_family
from common.protocol.constraint import Grammar
from common.protocol.errors import MisuseError
from common.protocol.messages import Constraint
from common.sampling.grammar import Grammars
from tests.common.sampling.test_grammar import walk
from tests.families import make_tokenizer

TOKENIZER = load_tokenizer(shipped_family("demo").target)
END = TOKENIZER.eos_token_id
GRAMMARS = Grammars(TOKENIZER, len(TOKENIZER), {END})
NUMBERS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3}
FUNCTIONS = [
    {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"numbers": {"$ref": "#/$defs/numbers"}},
            "$defs": {"numbers": NUMBERS},
            "required": ["numbers"],
            "additionalProperties": False,
        },
    },
    {"name": "now"},
]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("name", SYNTAXES)
def test_an_answer_that_ends_is_nothing_but_calls(name, several):
    syntax, counts, called = SYNTAXES[name](), set(), set()
    grammar = syntax.grammar(FUNCTIONS, json.dumps, several=several)
    for seed in range(12):
        answer = walk(GRAMMARS(Constraint(Grammar.LARK, grammar)), Random(seed), 300)
        assert answer[-1] == END
        parser = CallParser(syntax, {"add", "now"}, lambda: "id")
        pieces = [*parser.feed(TOKENIZER.decode(answer[:-1])), *parser.end(is_cut=False)]
        assert pieces
        assert all(isinstance(piece, ToolCall) for piece in pieces)
        for call in pieces:
            arguments = json.loads(call.arguments)
            assert list(arguments) == (["numbers"] if call.name == "add" else [])
            called.add(call.name)
        counts.add(len(pieces))
    assert called == {"add", "now"}
    assert counts == {1} if not several else max(counts) > 1


def test_what_a_template_has_opened_is_no_reasoning_of_a_constrained_answer():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "<think></think>"
    form, prompt = AnswerFormat(tokenizer, {tokenizer.eos_token_id}), tokenizer("<think>")["input_ids"]
    for may_think, reasoning in ((True, True), (False, False)):
        parser = form.parser(prompt, [], may_think=may_think)
        pieces = [*parser.feed('{"a": 1}'), *parser.end(is_cut=False)]
        assert {piece.is_reasoning for piece in pieces} == {reasoning}


def test_a_mark_that_is_a_special_token_is_named_by_its_number():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{{ tools }}[TOOL_CALLS]"
    tokenizer.add_special_tokens({"additional_special_tokens": ["[TOOL_CALLS]"]})
    number = tokenizer.convert_tokens_to_ids("[TOOL_CALLS]")
    grammar = AnswerFormat(tokenizer, {tokenizer.eos_token_id}).call_grammar(
        [{"function": function} for function in FUNCTIONS], several=True
    )
    constraint = Grammars(tokenizer, len(tokenizer), {tokenizer.eos_token_id})(Constraint(Grammar.LARK, grammar))
    assert constraint.forced([], 1) == (number,)


@pytest.mark.parametrize("several", [True, False])
def test_a_mistral_model_with_a_token_for_arguments_names_the_function_first(several):
    tokenizer = make_tokenizer()
    marks = ["[TOOL_CALLS]", "[ARGS]"]
    tokenizer.chat_template = "{{ tools }}[TOOL_CALLS]"
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    tools, counts = [{"function": function} for function in FUNCTIONS], set()
    form, end = AnswerFormat(tokenizer, {tokenizer.eos_token_id}), tokenizer.eos_token_id
    grammars = Grammars(tokenizer, len(tokenizer), {end})
    for grammar in (form.call_grammar(tools, several=several), form.strict_grammar(tools, {"add"}, [])):
        for seed in range(12):
            begun = tokenizer.convert_tokens_to_ids(marks[:1])
            answer = [*begun, *walk_behind(grammars(Constraint(Grammar.LARK, grammar)), begun, Random(seed), 300, end)]
            text = tokenizer.decode([token for token in answer if token != end])
            assert text.startswith(("[TOOL_CALLS]add[ARGS]{", "[TOOL_CALLS]now[ARGS]{"))
            if answer[-1] == end and grammar == form.call_grammar(tools, several=several):
                parser = form.parser([], tools)
                pieces = [*parser.feed(text), *parser.end(is_cut=False)]
                assert all(isinstance(piece, ToolCall) for piece in pieces)
                counts.add(len(pieces))
    assert counts == {1} if not several else max(counts) > 1


def walk_behind(constraint, begun, chance, most, end):
    """Tokens at random that may follow what has begun, up to the end."""
    answer = list(begun)
    while len(answer) < most and answer[-1] != end:
        answer.append(int(chance.choice(np.flatnonzero(constraint.allowed(answer)))))
    return answer[len(begun) :]


def test_calls_that_only_a_description_tells_cannot_be_forced():
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{{ tools }}"
    tokenizer.response_template = {"fields": {}}
    with pytest.raises(MisuseError, match="--tool-parser"):
        AnswerFormat(tokenizer, {tokenizer.eos_token_id}).call_grammar([], several=True)
