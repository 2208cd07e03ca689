"""Messages and tools are read into what templates expect, or refused with the name of what is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.endpoint.faults import FaultError
from client.endpoint.openai_messages import ToolChoice, has_tools, messages, strict_functions, tool_choice, tools

FUNCTION = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def tool(**more):
    return {"type": "function", "function": FUNCTION | more}


def test_a_history_of_calls_is_what_templates_read():
    called = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "reasoning": "so"}
    result = {"role": "tool", "tool_call_id": "1", "name": "add", "content": [{"type": "text", "text": "3"}]}
    read = messages("messages", [called, result, {"role": "assistant", "content": "3", "tool_calls": None}])
    function = {"name": "add", "arguments": {"a": 1}}
    assert read == (
        {
            "role": "assistant",
            "reasoning_content": "so",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
            "content": "",
        },
        {"role": "tool", "tool_call_id": "1", "name": "add", "content": "3"},
        {"role": "assistant", "content": "3"},
    )
    assert list(map(has_tools, read)) == [True, True, False]


def test_many_tools_are_not_each_compared_with_all_others():
    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

    assert len(tools("tools", [tool(name=Name(f"add_{index}")) for index in range(100)])) == 100
    assert Name.compared < 100


def test_a_call_without_arguments_has_none():
    function = {"name": "look", "arguments": ""}
    read = messages("messages", [{"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}])
    assert read[0]["tool_calls"][0]["function"]["arguments"] == {}


def test_a_template_is_not_shown_what_the_model_cannot_read():
    assert tools("tools", [tool(strict=True, parameters=None)]) == (
        {"type": "function", "function": {"name": "add", "description": "Adds."}},
    )
    assert strict_functions([tool(strict=True)]) == {"add"}
    assert strict_functions([tool(strict=False), tool()]) == strict_functions(None) == frozenset()


def test_functions_may_be_called_or_not():
    assert tool_choice("x", "auto") == ToolChoice()
    assert tool_choice("x", "none") == ToolChoice(may=False)
    assert tool_choice("x", "required") == ToolChoice(must=True)
    assert tool_choice("x", {"type": "function", "function": {"name": "add"}}) == ToolChoice(must=True, function="add")


def assistant(*calls):
    return [{"role": "assistant", "tool_calls": list(calls)}]


@pytest.mark.parametrize(
    ("read", "value", "parameter"),
    [
        (messages, [{"role": "assistant", "content": None}], "x[0].content"),
        (messages, [{"role": "assistant", "tool_calls": {}, "content": None}], "x[0].content"),
        (messages, [{"role": "assistant", "tool_calls": 3}], "x[0].tool_calls"),
        (messages, assistant(3), "x[0].tool_calls[0]"),
        (messages, assistant({"id": "1"}), "x[0].tool_calls[0]"),
        (messages, assistant({**CALL, "id": None}), "x[0].tool_calls[0].id"),
        (messages, assistant({"id": "1", "function": {"name": 3}}), "x[0].tool_calls[0].function.name"),
        *(
            (messages, assistant({"id": "1", "function": {"name": "a", "arguments": each}}), arguments)
            for arguments in ["x[0].tool_calls[0].function.arguments"]
            for each in ("{", "3", None, {}, "[" * 5000, '{"a": "\\ud800"}')
        ),
        (messages, [{"role": "tool", "content": "3"}], "x[0].tool_call_id"),
        (messages, [{"role": "tool", "tool_call_id": "1"}], "x[0].content"),
        (messages, [{"role": "tool", "tool_call_id": "1", "name": 3, "content": ""}], "x[0].name"),
        (tools, {}, "x"),
        (tools, [3], "x[0]"),
        (tools, [{"type": "web_search"}], "x[0]"),
        (tools, [{"type": "function"}], "x[0].function"),
        (tools, [tool(name="")], "x[0].function.name"),
        (tools, [tool(name="two words")], "x[0].function.name"),
        (tools, [tool(name=None)], "x[0].function.name"),
        (tools, [tool(description=3)], "x[0].function.description"),
        (tools, [tool(parameters=[])], "x[0].function.parameters"),
        (tools, [tool(parameters={"a": ["\ud800"]})], "x[0].function"),
        (tools, [tool(), tool()], "x"),
        (tool_choice, "sometimes", "x"),
        (tool_choice, {"type": "custom", "function": {"name": "add"}}, "x"),
        (tool_choice, {"type": "function", "function": {"name": 3}}, "x.function.name"),
        (tool_choice, 3, "x"),
    ],
)
def test_what_cannot_be_is_named(read, value, parameter):
    with pytest.raises(FaultError) as refused:
        read("x", value)
    fault = refused.value.fault
    assert (fault.status, fault.parameter) == (400, parameter)
    assert parameter in fault.message or parameter == "x[0].content"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["assistant", "tool", "user"]),
        "content": JSON,
        "tool_calls": st.lists(st.just(CALL) | JSON),
        "tool_call_id": JSON,
        "type": st.just("function"),
        "function": st.just(FUNCTION) | JSON,
    },
)


@given(st.lists(PARTS | JSON) | JSON, st.sampled_from([messages, tools]))
@settings(max_examples=40)
def test_any_json_is_read_or_refused(value, read):
    status = None
    try:
        made = read("x", value)
    except FaultError as error:
        status = error.fault.status
    assert status == 400 or len(made) == len(value)
