"""Ollama's requests ask for what OpenAI's would, and answers have Ollama's shape."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.endpoint.answer_parsers.pieces import TextPiece, ToolCall
from client.endpoint.faults import FaultError
from client.endpoint.ollama import OllamaBuilder, read_ollama_chat, read_ollama_generate, read_ollama_show
from client.endpoint.openai_requests import read_chat, read_completion
from client.endpoint.openai_responses import FinishedAnswer
from common.protocol.sampling import Sampling
from tests.compared import Comparisons

DEFAULTS = Sampling(temperature=0.3, top_k=4, seed=11)
MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
ANSWER = FinishedAnswer(
    (TextPiece("so", is_reasoning=True), TextPiece("Yes"), ToolCall("id", "add", '{"a": 1}')), "tool_calls", 7
)


def openai_chat(**fields):
    return read_chat({"model": "m", "messages": MESSAGES, "stream": True, **fields}, DEFAULTS)


def test_a_chat_asks_for_what_openais_would():
    options = {"temperature": 1, "repeat_penalty": 1.5, "num_predict": 5, "stop": ["x"], "seed": 3, "num_ctx": 2048}
    body = {"model": "m:latest", "messages": MESSAGES, "options": options, "tools": [TOOL], "keep_alive": "5m"}
    theirs = {"temperature": 1, "repetition_penalty": 1.5, "max_tokens": 5, "stop": ["x"], "seed": 3, "tools": [TOOL]}
    assert read_ollama_chat(body, DEFAULTS) == openai_chat(**theirs)
    assert read_ollama_chat({"model": "m", "messages": MESSAGES, "stream": False}, DEFAULTS) == openai_chat(
        stream=False
    )
    assert (
        read_ollama_chat({"model": "m", "messages": MESSAGES, "options": {"num_predict": -1}}, DEFAULTS)
        == openai_chat()
    )


@pytest.mark.parametrize(
    ("options", "theirs"),
    [
        ({"num_predict": 128.0}, {"max_tokens": 128}),
        ({"num_predict": 128.7}, {"max_tokens": 128}),
        ({"num_predict": 0}, {}),
        ({"num_predict": -1}, {}),
        ({"num_predict": -2.0}, {}),
        ({"num_predict": None}, {}),
        ({"top_k": 40.0}, {"top_k": 40}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"top_k": 0}, {"top_k": 0}),
        ({"seed": -1}, {}),
        ({"seed": -2}, {"seed": -2}),
        ({"seed": 42.0}, {"seed": 42}),
        ({"repeat_penalty": 0}, {"repetition_penalty": 1}),
        ({"repeat_penalty": -0.5}, {"repetition_penalty": 1}),
        ({"repeat_penalty": 0.5}, {"repetition_penalty": 0.5}),
        ({"num_ctx": 8192, "num_keep": 4, "mirostat": 0, "use_mmap": True, "num_gpu": -1, "anything": "x"}, {}),
    ],
)
def test_options_mean_what_they_do_in_ollama(options, theirs):
    body = {"model": "m", "messages": MESSAGES, "options": options}
    assert read_ollama_chat(body, DEFAULTS) == openai_chat(**theirs)


@pytest.mark.parametrize("limit", [0, -1, None])
def test_raw_text_has_no_limit_either_unless_one_is_asked_for(limit):
    body = {"model": "m", "prompt": "Hi", "raw": True, "options": {"num_predict": limit}}
    assert read_ollama_generate(body, DEFAULTS).max_new_tokens is None


def test_what_apps_send_beside_and_asks_for_nothing_is_taken():
    empty = {"system": "", "template": "", "suffix": "", "context": [], "images": [], "format": "", "think": None}
    body = {"model": "m", "prompt": "Hi", "raw": False, "keep_alive": 1800, "options": {}, "logprobs": False, **empty}
    assert read_ollama_generate(body, DEFAULTS) == openai_chat()
    body = {"model": "m", "messages": [{**MESSAGES[0], "images": []}], "tools": [], "format": "", "truncate": True}
    assert read_ollama_chat(body, DEFAULTS) == openai_chat()


def test_thinking_is_a_variable_of_the_template():
    asked = read_ollama_chat({"model": "m", "messages": MESSAGES, "think": False}, DEFAULTS)
    assert asked.variables == {"enable_thinking": False}
    asked = read_ollama_generate({"model": "m", "prompt": "Hi", "think": "low"}, DEFAULTS)
    assert asked.variables == {"reasoning_effort": "low"}


def test_results_are_those_of_the_calls_before_them():
    call = {"function": {"name": "add", "arguments": {"a": 1}}}
    results = [{"role": "tool", "tool_name": "add", "content": str(number)} for number in (1, 2)]
    history = [*MESSAGES, {"role": "assistant", "thinking": "so", "tool_calls": [call, call]}, *results]
    *_, called, first, second = read_ollama_chat({"model": "m", "messages": history}, DEFAULTS).messages
    assert called["reasoning_content"] == "so"
    assert [each["id"] for each in called["tool_calls"]] == [first["tool_call_id"], second["tool_call_id"]]
    assert called["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 1}}
    assert first["name"] == "add"
    assert all(len(each["id"]) == 9 and each["id"].isalnum() for each in called["tool_calls"])  # as Mistral's wants it


def test_results_find_their_calls_by_id_by_name_or_by_order():
    def ids(calls, results):
        history = [
            *MESSAGES,
            {"role": "assistant", "tool_calls": calls},
            *({"role": "tool", "content": "x", **each} for each in results),
        ]
        read = read_ollama_chat({"model": "m", "messages": history}, DEFAULTS).messages[2:]
        return [each["tool_call_id"] for each in read]

    add, look = ({"id": name * 3, "function": {"name": name, "arguments": {}}} for name in ("add", "log"))
    assert ids([add, look], [{"tool_call_id": "logloglog"}, {}]) == ["logloglog", "addaddadd"]
    assert ids([add, look], [{"tool_name": "log"}, {"tool_name": "add"}]) == ["logloglog", "addaddadd"]
    assert ids([add, look], [{"tool_name": "other"}, {}]) == ["addaddadd", "logloglog"]
    assert ids([add], [{}, {}]) == ["addaddadd", ""]
    assert ids([add, look], [{"tool_call_id": "nobody's"}, {}]) == ["nobody's", "addaddadd"]
    assert ids([add, add, look], [{"tool_call_id": "addaddadd", "tool_name": "log"}, {"tool_name": "add"}]) == [
        "addaddadd",
        "addaddadd",
    ]


def test_nulls_in_messages_say_nothing():
    call = {"id": "addaddadd", "function": {"name": "add", "arguments": None}}
    answered = {"role": "assistant", "content": None, "thinking": None, "images": None, "tool_calls": [call]}
    result = {"role": "tool", "content": "3", "tool_name": None, "tool_call_id": None}
    read = read_ollama_chat({"model": "m", "messages": [*MESSAGES, answered, result]}, DEFAULTS).messages[-2:]
    (called,) = read[0]["tool_calls"]
    assert called["function"] == {"name": "add", "arguments": {}}
    assert read[0]["content"] == ""
    assert "reasoning_content" not in read[0]
    assert read[1]["tool_call_id"] == called["id"] == "addaddadd"


def test_many_results_are_not_compared_with_many_calls():
    """Which took half a minute for 670 KB, while nobody else was served."""
    compared, many = Comparisons(), 300
    calls = [{"id": compared.of(f"call{number}"), "function": {"name": "f", "arguments": {}}} for number in range(many)]
    results = [{"role": "tool", "content": "x", "tool_call_id": compared.of("other")} for _ in range(many)]
    history = [*MESSAGES, {"role": "assistant", "tool_calls": calls}, *results]
    with suppress(FaultError):  # no call has that id
        read_ollama_chat({"model": "m", "messages": history}, DEFAULTS)
    assert compared.count < 20 * many


def test_a_prompt_goes_through_the_template_unless_it_is_raw():
    body = {"model": "m", "prompt": "Hi", "system": "Be brief."}
    messages = [{"role": "system", "content": "Be brief."}, *MESSAGES]
    assert read_ollama_generate(body, DEFAULTS) == openai_chat(messages=messages)
    body = {"model": "m", "prompt": "Hi", "system": "", "raw": True}
    raw = read_ollama_generate(body, DEFAULTS)
    assert (raw.prompts, raw.max_new_tokens) == (("Hi",), None)
    raw = read_ollama_generate({**body, "options": {"num_predict": 3}}, DEFAULTS)
    theirs = {"model": "m", "prompt": "Hi", "max_tokens": 3, "stream": True}
    assert raw == read_completion(theirs, DEFAULTS)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"model": "m"}, "messages"),
        ({"messages": MESSAGES}, "model"),
        ({"model": "m", "messages": MESSAGES, "format": 3}, "format"),
        ({"model": "m", "messages": MESSAGES, "format": "yaml"}, "format"),
        ({"model": "m", "messages": MESSAGES, "format": "\ud800"}, "format"),
        ({"model": "m", "messages": MESSAGES, "format": {"title": "\ud800"}}, "format"),
        ({"model": "m", "messages": MESSAGES, "format": "json", "tools": [TOOL]}, "format"),
        ({"model": "m", "messages": [{**MESSAGES[0], "images": ["x"]}]}, "images"),
        ({"model": "m", "messages": MESSAGES, "options": 3}, "options"),
        ({"model": "m", "messages": MESSAGES, "options": {"top_k": "x"}}, "options.top_k"),
        ({"model": "m", "messages": MESSAGES, "options": {"num_predict": "128"}}, "options.num_predict"),
        ({"model": "m", "messages": MESSAGES, "options": {"num_predict": False}}, "options.num_predict"),
        ({"model": "m", "messages": MESSAGES, "options": {"repeat_penalty": 1000}}, "options.repeat_penalty"),
        ({"model": "m", "messages": MESSAGES, "options": {"seed": "x"}}, "options.seed"),
        ({"model": "m", "messages": MESSAGES, "options": {"stop": 3}}, "options.stop"),
        ({"model": "m", "messages": MESSAGES, "think": 1}, "think"),
        ({"model": "m", "messages": MESSAGES, "think": "\ud800"}, "think"),
        ({"model": "m", "prompt": "Hi", "system": ["Be brief."]}, "system"),
        ({"model": "m", "prompt": "Hi", "system": "Be brief.", "raw": True}, "system"),
    ],
)
def test_what_cannot_be_is_named_as_the_body_has_it(body, parameter):
    read = read_ollama_generate if "prompt" in body else read_ollama_chat
    with pytest.raises(FaultError) as refused:
        read(body, DEFAULTS)
    assert refused.value.fault.parameter == parameter
    assert f"'{parameter}'" in refused.value.fault.message


def test_a_limit_of_words_is_not_told_to_be_at_least_what_it_need_not():
    for value in ("abc", 1 << 31):
        with pytest.raises(FaultError, match=r"'options\.num_predict' must be a whole number, at most 2147483647$"):
            read_ollama_chat({"model": "m", "messages": MESSAGES, "options": {"num_predict": value}}, DEFAULTS)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("prompt", [["a", "b"], None])
def test_only_one_prompt_is_generated_from(raw, prompt):
    with pytest.raises(FaultError, match="'prompt' must be a string"):
        read_ollama_generate({"model": "m", "prompt": prompt, "raw": raw}, DEFAULTS)


@pytest.mark.parametrize(
    "body",
    [{"model": "m:latest"}, {"model": "m", "name": ""}, {"name": "m"}, {"model": "", "name": "m", "options": None}],
)
def test_the_model_that_is_asked_about_has_a_newer_or_an_older_key(body):
    assert read_ollama_show(body) == "m"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["model", "messages", "prompt", "options", "tools", "think", "system", "raw", "role", "tool_calls"]
)


@given(JSON | st.dictionaries(NAMES, JSON), st.sampled_from([read_ollama_chat, read_ollama_generate]))
@settings(max_examples=40)
def test_any_json_is_a_request_or_a_fault(body, read):
    status = None
    try:
        asked = read(body, DEFAULTS)
    except FaultError as error:
        status = error.fault.status
    assert status == 400 or asked.model == body["model"].removesuffix(":latest")


def test_a_stream_adds_up_to_the_whole():
    builder = OllamaBuilder("m", is_chat=True, prompt_tokens=3)
    whole = builder.whole(ANSWER, "now", 9)
    call = {"function": {"name": "add", "arguments": {"a": 1}}}
    assert whole["message"] == {"role": "assistant", "content": "Yes", "thinking": "so", "tool_calls": [call]}
    parts = [builder.piece(piece, "now")["message"] for piece in ANSWER.pieces]
    assert [part.get("thinking", part["content"]) for part in parts[:2]] == ["so", "Yes"]
    assert parts[2]["tool_calls"] == [call]
    end = builder.closing(ANSWER, "now", 9)
    assert end == {**whole, "message": {"role": "assistant", "content": ""}}
    assert (end["done"], end["done_reason"], end["prompt_eval_count"], end["eval_count"]) == (True, "stop", 3, 7)


@pytest.mark.parametrize("is_chat", [True, False])
def test_the_end_tells_what_the_draft_model_wrote_alone(is_chat):
    builder = OllamaBuilder("m", is_chat, prompt_tokens=3)
    alone = FinishedAnswer((TextPiece("Yes", unverified=True),), "stop", 7, unverified=5, details={"seed": 4})
    about = {"offline": True, "unconfirmed_tokens": 5, "seed": 4}
    assert builder.whole(alone, "now", 9)["outrider"] == builder.closing(alone, "now", 9)["outrider"] == about
    assert builder.piece(alone.pieces[0], "now")["outrider"] == {"offline": True}
    assert "outrider" not in builder.piece(TextPiece("Yes"), "now")


def test_the_end_tells_how_long_prompt_and_answer_took():
    builder = OllamaBuilder("m", is_chat=True, prompt_tokens=3)
    end = builder.closing(replace(ANSWER, waited_s=0.25, written_s=1.5), "now", 2_000_000_000)
    assert {name: value for name, value in end.items() if name.endswith("_duration")} == {
        "total_duration": 2_000_000_000,
        "load_duration": 0,
        "prompt_eval_duration": 250_000_000,
        "eval_duration": 1_500_000_000,
    }


def test_generated_text_is_a_response():
    builder = OllamaBuilder("m", is_chat=False, prompt_tokens=3)
    cut = FinishedAnswer((TextPiece("Yes"),), "length", 7)
    assert builder.piece(TextPiece("Yes"), "now") == {
        "model": "m",
        "created_at": "now",
        "done": False,
        "response": "Yes",
    }
    assert (builder.whole(cut, "now", 9)["response"], builder.whole(cut, "now", 9)["done_reason"]) == ("Yes", "length")
