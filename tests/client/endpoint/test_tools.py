"""Tools through `outrider serve` before a real server whose target calls them: online, with a cut in the middle, and
without a server, where the draft model would write the very same call."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import openai
import pytest

from tests.client.endpoint.serving import MODEL, client_of, outrider_serve, pieces
from tests.client.endpoint.test_openai_offline import Server
from tests.scripted_models import make_scripted_checkpoint

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}<|turn|>{{ message.role }}\n"
    "{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|end|>"
    "{% endfor %}<|turn|>assistant\n"
    "{% if messages[-1].role == 'tool' and messages[-1].content == '3' %}<|answers|>"
    "{% elif tools and 'twice' in messages[-1].content %}<|calls twice|>"
    "{% elif tools %}<|calls|>{% else %}<|chats|>{% endif %}"
)
SCRIPTS = {
    "<|calls|>": [
        *("<think>", "two numbers", "</think>", "\n\nI add", " them.", "\n<tool_call>", '\n{"name": ', '"add", '),
        *('"arguments"', ': {"a": 1, ', '"b": 2}', "}\n", "</tool_call>"),
    ],
    "<|calls twice|>": [
        *('<tool_call>{"name": "add", "arguments": ', '{"a": 3, ', '"b": 4}}</tool_call>', "\n\n"),
        *('<tool_call>{"name": "add", "arguments": {"a": 5', ', "b": 6}}', "</tool_call>\n"),
    ],
    "<|answers|>": ["The sum", " is three."],
    "<|chats|>": [*("Hello", ", how", " are you", " today", " then", " my", " dear", " old", " friend", "?")],
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
}
QUESTION = [{"role": "user", "content": "What is 1 + 2?"}]
TWICE = [{"role": "user", "content": "Add twice."}]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for role in ("target", "independent"):
        make_scripted_checkpoint(folder / role, SCRIPTS, TEMPLATE)
    return folder


@pytest.fixture(scope="module")
def server(models) -> Iterator[Server]:
    with ExitStack() as stack:
        yield Server(models, stack)


@pytest.fixture(scope="module")
def address(server, models) -> Iterator[str]:
    with outrider_serve("--server", server.address, "--cache-dir", str(models / "cache")) as address:
        yield address


@pytest.fixture(scope="module")
def client(address) -> openai.OpenAI:
    return client_of(address)


def ask(client, messages=QUESTION, **settings):
    return client.chat.completions.create(model=MODEL, messages=messages, **{"tools": [ADD]} | settings)


def test_a_call_is_made_and_answered(client):
    choice = ask(client).choices[0]
    message = choice.message
    assert choice.finish_reason == "tool_calls"
    assert (message.reasoning_content, message.content) == ("two numbers", "I add them.")
    (call,) = message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 1, "b": 2})
    history = [*QUESTION, message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "3"}]
    assert ask(client, history).choices[0].message.content == "The sum is three."


def test_streamed_calls_add_up_to_the_whole_ones(client):
    with client.chat.completions.stream(model=MODEL, messages=TWICE, tools=[ADD]) as stream:
        streamed = stream.get_final_completion().choices[0]
    whole = ask(client, TWICE).choices[0]
    assert (streamed.finish_reason, streamed.message.content) == ("tool_calls", "")
    calls = [
        [(call.function.name, call.function.arguments) for call in each.message.tool_calls]
        for each in (streamed, whole)
    ]
    assert calls[0] == calls[1] == [("add", '{"a": 3, "b": 4}'), ("add", '{"a": 5, "b": 6}')]
    assert len({call.id for call in streamed.message.tool_calls}) == 2


def test_a_response_has_reasoning_text_and_calls_as_items_and_goes_on_from_them(client):
    tool = {"type": "function", **ADD["function"]}
    asked = {"model": MODEL, "tools": [tool]}
    with client.responses.stream(input=QUESTION, **asked) as stream:
        events = [event.type for event in stream]
        response = stream.get_final_response()
    assert (events[0], events[-1]) == ("response.created", "response.completed")
    assert response.created_at.is_integer()
    reasoning, message, call = response.output
    assert (reasoning.content[0].text, message.content[0].text) == ("two numbers", "I add them.")
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "add", {"a": 1, "b": 2})
    history = [*QUESTION, *response.output, {"type": "function_call_output", "call_id": call.call_id, "output": "3"}]
    assert client.responses.create(input=history, **asked).output_text == "The sum is three."


def test_one_call_alone_ends_the_answer(client):
    choice = ask(client, TWICE, parallel_tool_calls=False).choices[0]
    assert [call.function.arguments for call in choice.message.tool_calls] == ['{"a": 3, "b": 4}']
    assert choice.finish_reason == "tool_calls"


def strict_add(**parameters):
    return {**ADD, "function": {**ADD["function"], "strict": True, "parameters": parameters}}


def test_strict_tools_leave_the_model_free_to_call_and_their_arguments_fit(client):
    """The form of what leaves no choice is llguidance's, so that this model's own tokens for it are not to be had, and
    neither are its numbers."""
    free = {"a": {"type": "number"}, "b": {"type": "number"}}
    same = strict_add(type="object", properties=free, required=["a", "b"], additionalProperties=False)
    answer = client.chat.completions.with_raw_response.parse(model=MODEL, messages=QUESTION, tools=[same])
    assert "warning" not in answer.headers
    message = answer.parse().choices[0].message
    arguments = message.tool_calls[0].function.parsed_arguments
    assert set(arguments) == {"a", "b"}
    assert all(isinstance(number, int | float) for number in arguments.values())
    assert (message.reasoning_content, message.content) == ("two numbers", "I add them.")
    named = {"sum": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}}
    other = strict_add(type="object", properties=named, required=["sum"], additionalProperties=False)
    (call,) = ask(client, tools=[other], parallel_tool_calls=False).choices[0].message.tool_calls
    assert set(json.loads(call.function.arguments)["sum"]) <= {1, 2}
    chats = [*QUESTION, {"role": "tool", "tool_call_id": "1", "content": "3"}]
    assert ask(client, chats, tools=[other]).choices[0].message.content == "The sum is three."


def test_a_model_thinks_before_an_answer_of_a_given_form(client):
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["I add"]}}}
    message = ask(client, tools=[], tool_choice=None, response_format=form, max_tokens=400).choices[0].message
    assert json.loads(message.content) == "I add"


def test_without_leave_to_call_no_tools_are_shown(client):
    assert ask(client, tool_choice="none").choices[0].message.content == "".join(SCRIPTS["<|chats|>"])


PICK = {
    "type": "function",
    "function": {
        "name": "pick",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "pick"}}])
def test_a_call_is_made_where_one_must_be(client, choice):
    """By a target that would write something else, with arguments that fit the function's schema."""
    tools = [PICK] if choice == "required" else [ADD, PICK]
    answer = ask(client, tools=tools, tool_choice=choice, parallel_tool_calls=False).choices[0]
    (call,) = answer.message.tool_calls
    assert (answer.finish_reason, answer.message.content, call.function.name) == ("tool_calls", None, "pick")
    assert json.loads(call.function.arguments)["colour"] in ("red", "green")


@pytest.mark.parametrize(
    "settings",
    [{"tools": [], "tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "gone"}}}],
)
def test_a_call_of_what_is_not_there_is_refused(client, settings):
    with pytest.raises(openai.BadRequestError, match="asks for a call") as refused:
        ask(client, **settings)
    assert refused.value.param == "tool_choice"


def test_a_call_that_the_length_limit_cuts_is_text(client):
    choice = ask(client, max_tokens=9).choices[0]
    assert (choice.finish_reason, choice.message.tool_calls) == ("length", None)
    assert choice.message.content == 'I add them.\n<tool_call>\n{"name": "add", "arguments"'


def test_a_call_that_must_be_made_and_is_cut_is_text_too(client):
    choice = ask(client, tools=[PICK], tool_choice="required", max_tokens=24).choices[0]
    assert (choice.finish_reason, choice.message.tool_calls) == ("length", None)
    assert choice.message.content.startswith("<tool_call>")


def test_private_text_is_not_given_to_tools(client):
    with pytest.raises(openai.BadRequestError, match="calls no tools"):
        ask(client, [{"role": "user", "content": "[[private]]secret[[/private]]"}])
    marked = {"type": "function", "function": {"name": "add", "description": "[[private]]secret[[/private]]"}}
    with pytest.raises(openai.BadRequestError, match="in the content of messages alone"):
        ask(client, tools=[marked])


def test_a_client_that_goes_away_in_mid_call_leaves_nothing(address, client):
    for _ in range(6):
        stream = ask(client, stream=True)
        assert next(iter(stream))
        stream.close()
    assert ask(client).choices[0].message.tool_calls
    assert httpx2.get(f"http://{address}/health").json()["answering"] == 0


def test_choices_are_as_many_as_asked_for_and_the_prompt_may_precede_them(client):
    answer = ask(client, tools=[], n=3)
    assert [choice.message.content for choice in answer.choices] == ["".join(SCRIPTS["<|chats|>"])] * 3
    streamed: dict[int, str] = {}
    for chunk in ask(client, tools=[], n=2, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] = streamed.get(choice.index, "") + (choice.delta.content or "")
    assert streamed == {0: answer.choices[0].message.content, 1: answer.choices[0].message.content}
    prompts = ["<|answers|>", "<|chats|>"]
    texts = client.completions.create(model=MODEL, prompt=prompts, echo=True, max_tokens=2).choices
    assert [text.text for text in texts] == ["<|answers|>The sum is three.", "<|chats|>Hello, how"]


def test_a_cut_in_mid_call_delays_the_call_and_changes_nothing(models):
    with ExitStack() as stack:
        server = Server(models, stack)
        serving = ("--server", server.address, "--cache-dir", str(models / "cache"))
        client = client_of(stack.enter_context(outrider_serve(*serving, "--offline-wait", "60", "--policy", "cloud")))
        expected = ask(client).choices[0].message
        stream, text = ask(client, stream=True), ""
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            if text:
                break
        server.kill()
        server.begin()
        rest = [chunk.choices[0] for chunk in stream]
        assert text + "".join(choice.delta.content or "" for choice in rest) == expected.content
        deltas = [delta.function for choice in rest for delta in choice.delta.tool_calls or ()]
        assert [(delta.name, delta.arguments) for delta in deltas] == [
            ("add", ""),
            (None, expected.tool_calls[0].function.arguments),
        ]
        assert rest[-1].finish_reason == "tool_calls"


def test_without_a_server_no_call_is_made_though_the_draft_would_write_it(models):
    with ExitStack() as stack:
        server = Server(models, stack)
        serving = ("--server", server.address, "--cache-dir", str(models / "cache"))
        client = client_of(stack.enter_context(outrider_serve(*serving, "--offline-wait", "0.5")))
        assert ask(client).choices[0].message.tool_calls
        server.kill()
        assert "".join(pieces(ask(client, tools=[], stream=True))), "text is the draft's own"
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="out of reach") as refused:
                ask(client, stream=stream)
            assert refused.value.status_code == 503
            assert int(refused.value.response.headers["retry-after"]) > 0
        server.begin()
        assert ask(client).choices[0].finish_reason == "tool_calls"
