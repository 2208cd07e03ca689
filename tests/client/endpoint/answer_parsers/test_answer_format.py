"""How a checkpoint writes calls and reasoning is told by its tokenizer, or by the user."""

import pytest
from tokenizers import AddedToken

from client.endpoint.answer_parsers.answer_format import AnswerFormat, find_syntax, new_id, syntax_of
from client.endpoint.answer_parsers.hermes import Hermes
from client.endpoint.answer_parsers.pieces import TextPiece
from common.models.tokenizer import plain_tokenizer
from common.protocol.errors import MisuseError
from tests.client.endpoint.answer_parsers.feeding import parsed
from tests.client.endpoint.answer_parsers.test_response_template import CALL, MADE, TEMPLATE
from tests.families import END_TOKEN, make_tokenizer

TOOLS = [{"type": "function", "function": {"name": "add"}}]
SHOWING_TOOLS = "{{ tools | tojson }}{% for message in messages %}{{ message.content }}{% endfor %}"


def tokenizer(template, response_template=None, special=()):
    full = make_tokenizer()
    full.add_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    full.chat_template, full.response_template = template, response_template
    return plain_tokenizer(full)


def answer_format(template: str, syntax=None, **more) -> AnswerFormat:
    made = tokenizer(template, **more)
    return AnswerFormat(made, {made.get_vocab()[END_TOKEN]}, syntax)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ '<tool_call>' }}", "hermes"),
        ("{{ '<|python_tag|>' }}", "llama3-json"),
        ('Respond in the format {"name": function name, "parameters": dictionary}', "llama3-json"),
        ("{{ '[TOOL_CALLS]' }}", "mistral"),
        ("{{ '<tool_call>\n<function=' }}", None),
        ("{{ '<tool_call>name\n<arg_key>' }}", None),
        ("{{ messages }}", None),
    ],
)
def test_a_template_tells_the_syntax(template, name):
    syntax = syntax_of(template)
    assert (None if syntax is None else syntax.name) == name


def test_an_unknown_parser_is_told_with_those_that_there_are():
    with pytest.raises(MisuseError, match="--tool-parser is hermes, llama3-json, mistral, not 'x'"):
        find_syntax("x")
    assert find_syntax("hermes").name == "hermes"


def test_a_template_that_shows_no_tools_is_told():
    with pytest.raises(MisuseError, match="chat template knows no tools"):
        answer_format("{% if not tools is defined %}<tool_call>{% endif %}{{ messages[0].content }}").require_tools()


def test_a_syntax_that_cannot_be_told_is_asked_for():
    with pytest.raises(MisuseError, match="--tool-parser and one of: hermes, llama3-json, mistral"):
        answer_format(SHOWING_TOOLS).require_tools()
    answer_format(SHOWING_TOOLS, Hermes()).require_tools()
    answer_format(SHOWING_TOOLS, response_template=TEMPLATE).require_tools()


def test_the_template_for_requests_with_tools_tells_the_syntax_too():
    templates = {"default": "{{ messages[0].content }}", "tool_use": f"<tool_call>{SHOWING_TOOLS}"}
    full = make_tokenizer()
    full.chat_template = templates
    for made in (tokenizer(templates), full):
        AnswerFormat(made, ()).require_tools()


def test_a_checkpoints_own_description_comes_first_and_the_users_before_it():
    described = {"response_template": TEMPLATE}
    template = f"{SHOWING_TOOLS}<tool_call>"
    assert parsed(answer_format(template, **described).parser([], TOOLS), CALL)[0].name == MADE.name
    assert parsed(answer_format(template, Hermes(), **described).parser([], TOOLS), CALL) == [TextPiece(CALL)]


def test_what_a_constraint_makes_it_write_is_no_thought_though_the_template_opens_one():
    form = answer_format("<tool_call> </think> <think>", response_template=TEMPLATE)
    assert parsed(form.parser([], (), may_think=False), '{"a": 3}') == [TextPiece('{"a": 3}')]
    forced = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
    assert parsed(form.parser([], TOOLS, may_think=False), forced)[0].name == "add"


def test_reasoning_goes_on_that_the_prompt_has_begun():
    made = tokenizer("<think></think>")
    prompt = made("<|turn|>assistant\n<think>\n")["input_ids"]
    form = AnswerFormat(made, ())
    assert parsed(form.parser(prompt, ()), "so</think>Yes") == [TextPiece("so", is_reasoning=True), TextPiece("Yes")]
    assert parsed(form.parser(prompt[:-4], ()), "so</think>Yes") == [TextPiece("so</think>Yes")]
    assert (form.opening(prompt), form.opening(prompt[:-4])) == ("<think>", "")
    assert AnswerFormat(tokenizer("no marks"), ()).opening(prompt) == ""


def test_special_tokens_are_text_where_a_parser_looks_for_them():
    special = ("[TOOL_CALLS]", "<think>", "[other]")
    marked = answer_format("[TOOL_CALLS] </think>", special=special)
    assert sorted(marked.shown_tokens(with_tools=True).values()) == ["<think>", "[TOOL_CALLS]"]
    assert sorted(marked.shown_tokens(with_tools=False).values()) == ["<think>"]
    assert answer_format("", special=special).shown_tokens(with_tools=False) == {}
    described = answer_format("", special=special, response_template=TEMPLATE).shown_tokens(with_tools=False)
    assert {*special} <= {*described.values()}
    assert END_TOKEN not in described.values()


def test_mistrals_ids_have_nine_characters():
    form = answer_format("[TOOL_CALLS]")
    made = parsed(form.parser([], TOOLS), "[TOOL_CALLS]add[ARGS]{}")[0]
    assert len(made.id) == 9
    assert made.id.isalnum()
    assert new_id() != new_id()
