"""Bodies of `/v1/responses` mean what the chat requests do that ask for the same."""

import json

import pytest

from client.endpoint.faults import FaultError, wrong
from client.endpoint.openai_requests import CompletionRequest, read_chat
from client.endpoint.responses_requests import in_words_of_responses, read_response
from common.protocol.constraint import Grammar
from common.protocol.messages import Constraint
from common.protocol.sampling import Sampling

DEFAULTS = Sampling(seed=7)
FUNCTION = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}

ADD = {"type": "function", "name": "add"}
CALLED = {"tools": [{"type": "function", **FUNCTION}]}


def read(body, **settings) -> CompletionRequest:
    return read_response({"model": "outrider", "input": "Hi", **body}, DEFAULTS, **settings)


def chat(**settings) -> CompletionRequest:
    messages = [{"role": "user", "content": "Hi"}]
    return read_chat({"model": "outrider", "messages": messages, **settings}, DEFAULTS)


@pytest.mark.parametrize(
    ("asked", "as_chat"),
    [
        ({}, {}),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]}, {}),
        (
            {"max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9},
            {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9},
        ),
        ({"stream": True, "seed": 3, "frequency_penalty": 1}, {"stream": True, "seed": 3, "frequency_penalty": 1}),
        ({"store": False, "background": False, "truncation": "disabled", "metadata": {"a": "b"}}, {}),
        ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        ({"tools": [], "include": []}, {}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        (
            {"tools": [{"type": "function", **FUNCTION}], "tool_choice": {"type": "function", "name": "add"}},
            {
                "tools": [{"type": "function", "function": FUNCTION}],
                "tool_choice": {"type": "function", "function": {"name": "add"}},
            },
        ),
    ],
)
def test_it_is_the_chat_that_asks_for_the_same(asked, as_chat):
    assert read(asked) == chat(**as_chat)


def test_a_schema_is_a_chats():
    asked = read({"text": {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}}})
    _, constraint = asked.form
    assert json.loads(constraint.text) == SCHEMA


@pytest.mark.parametrize(
    "asked",
    [
        {"guided_regex": "a+"},
        {"guided_json": SCHEMA},
        {"guided_grammar": 'start: "a"'},
        {"guided_choice": ["a", "b"]},
        {"structured_outputs": {"regex": "a+"}},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_a_form_in_vllms_words_is_a_chats(asked):
    read_form = read(asked, strict=True)
    assert (read_form.form, read_form.ignored) == (chat(**asked).form, ())
    assert read_form.form is not None


def test_a_form_has_one_name_here():
    assert read({"guided_regex": "a+"}).form == ("guided_regex", Constraint(Grammar.REGEX, "a+"))
    named = read({"response_format": {"type": "json_object"}})
    assert (named.form, named.ignored) == (None, ("response_format",))


def test_items_become_messages_and_those_of_one_answer_one():
    items = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": "What is 1 + 2, and 3 + 4?"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "I add."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Adding."}]},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "call_2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "7"}]},
        {"type": "message", "role": "assistant", "content": "3 and 7."},
        {"type": "message", "role": "assistant", "content": "Anything else?"},
    ]
    messages = read({"instructions": "Add.", "input": items}).messages
    assert [message["role"] for message in messages] == [
        *("system", "system", "user", "assistant", "tool", "tool", "assistant", "assistant")
    ]
    answer = messages[3]
    assert (answer["content"], answer["reasoning_content"]) == ("Adding.", "I add.")
    assert [(call["id"], call["function"]["arguments"]) for call in answer["tool_calls"]] == [
        ("call_1", {"a": 1}),
        ("call_2", {}),
    ]
    assert [message["content"] for message in messages[4:]] == ["3", "7", "3 and 7.", "Anything else?"]
    assert messages[0]["content"] == "Add."


def test_reasoning_belongs_to_what_follows_it():
    def thought(text):
        return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}

    def call(number):
        return {"type": "function_call", "call_id": number, "name": "add", "arguments": "{}"}

    def said(text):
        return {"type": "message", "role": "assistant", "content": text}

    def told(*items):
        messages = read({"input": [{"role": "user", "content": "Hi"}, *items]}).messages[1:]
        return [
            (
                message.get("reasoning_content"),
                message["content"],
                [each["id"] for each in message.get("tool_calls", ())],
            )
            for message in messages
        ]

    assert told(said("A"), thought("why B"), said("B")) == [(None, "A", []), ("why B", "B", [])]
    assert told(call("1"), said("Done"), thought("more"), call("2")) == [(None, "Done", ["1"]), ("more", "", ["2"])]
    assert told(thought("so "), thought("far"), said("B")) == [("so far", "B", [])]
    assert told(thought("cut"), {"role": "user", "content": "Go on"}) == [(None, "Go on", [])]
    assert told({"type": "reasoning", "summary": [], "encrypted_content": "x"}) == []
    assert told(said([{"type": "refusal", "refusal": "No."}])) == [(None, "No.", [])]


@pytest.mark.parametrize(
    ("asked", "parameter", "says"),
    [
        ({"input": None}, "input", "'input' is missing"),
        ({"input": []}, "input", "'input' must be a text"),
        ({"input": [3]}, "input[0]", "must be an object"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "must be one of"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content", "text alone"),
        ({"instructions": "x", "input": [{"role": "king", "content": ""}]}, "input[0].role", "'input[0].role' must"),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "["}]},
            "input[0].tool_calls[0].function.arguments",
            "JSON object in a string",
        ),
        ({"instructions": 3}, "instructions", "must be a string"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "no response is kept here"),
        ({"conversation": "c"}, "conversation", "no response is kept here"),
        ({"background": True}, "background", "answered at once"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]", "must be of the type 'function'"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name", "'tools[0].name' must have"),
        ({"tool_choice": "required"}, "tool_choice", "asks for a call"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "'text.format.type' must be one of"),
        ({"text": 3}, "text", "must be an object"),
        ({"max_output_tokens": 0}, "max_output_tokens", "'max_output_tokens' must be"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort", "'reasoning.effort' must be"),
        ({"include": "all"}, "include", "list of strings"),
        ({"top_logprobs": 21}, "top_logprobs", "at most 20"),
        ({"metadata": {"a": "\ud800"}}, "metadata", "not valid text"),
        ({"metadata": {"\ud800": "a"}}, "metadata", "not valid text"),
        ({"metadata": {"a": 3}}, "metadata", "'metadata' must map strings to strings"),
        ({"max_output_tokens": 10**21}, "max_output_tokens", "at least 1 and at most 2147483647"),
        ({"metadata": "a"}, "metadata", "must be an object"),
        (
            {"text": {"format": {"type": "json_object"}}, "guided_json": {}},
            "guided_json",
            "'text.format' and 'guided_json' say both",
        ),
        ({"metadata": []}, "metadata", "must be an object"),
        ({**CALLED, "tool_choice": {**ADD, "more": "\ud800"}}, "tool_choice", "not valid text"),
        ({**CALLED, "tool_choice": {**ADD, "\ud800": 0}}, "tool_choice", "not valid text"),
    ],
)
def test_faults_name_the_part_of_the_body(asked, parameter, says):
    with pytest.raises(FaultError) as refused:
        read(asked)
    assert refused.value.fault.parameter == parameter
    assert says in refused.value.fault.message


def test_only_parameters_are_renamed_in_faults():
    with pytest.raises(FaultError) as refused:
        read({"tool_choice": {"type": "function", "name": "messages[9]"}})
    assert "'messages[9]'" in refused.value.fault.message
    with pytest.raises(FaultError) as refused:
        read({"chat_template_kwargs": {"messages": []}})
    assert "'messages'" in refused.value.fault.message


@pytest.mark.parametrize(
    ("fault", "parameter", "says"),
    [
        (wrong("messages", "a template says 'messages[1].role' is wrong"), "input", "'messages[1].role' is wrong"),
        (wrong("logprobs", "leave 'logprobs' out"), "top_logprobs", "leave 'top_logprobs' out"),
        (wrong("tools[0].function.strict", "x"), "tools[0].strict", "x"),
        (wrong(None, "'messages[1]'"), None, "'messages[1]'"),
    ],
)
def test_faults_of_a_service_are_told_in_words_of_the_body(fault, parameter, says):
    told = in_words_of_responses(fault).fault
    assert (told.parameter, says in told.message) == (parameter, True)


def test_what_has_no_effect_is_named_and_refused_if_strict():
    asked = {
        "store": True,
        "truncation": "auto",
        "max_tool_calls": 3,
        "include": ["reasoning.encrypted_content"],
        "text": {"verbosity": "low"},
        "reasoning": {"summary": "auto"},
    }
    names = {*asked} - {"include", "text", "reasoning"} | {
        *("include[reasoning.encrypted_content]", "text.verbosity", "reasoning.summary")
    }
    assert set(read(asked).ignored) == names
    for name, value in asked.items():
        with pytest.raises(FaultError, match="has no effect here"):
            read({name: value}, strict=True)


@pytest.mark.parametrize("body", [3, [], None, "text"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(FaultError, match="JSON object"):
        read_response(body, DEFAULTS)
