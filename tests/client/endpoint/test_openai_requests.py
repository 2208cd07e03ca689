"""Bodies of OpenAI requests are parsed, or refused with the name of what is wrong."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.endpoint.faults import FaultError
from client.endpoint.openai_requests import RequestKind, read_chat, read_completion
from common.protocol.sampling import Sampling, fault

DEFAULTS = Sampling(temperature=0.3, top_k=4, seed=11)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def chat(**more):
    return read_chat(CHAT | more, DEFAULTS)


def completion(**more):
    return read_completion({"model": "m", "prompt": "Hi"} | more, DEFAULTS)


def test_what_is_not_said_is_as_by_default():
    asked = chat()
    assert (asked.kind, asked.model, asked.sampling) == (RequestKind.CHAT, "m", DEFAULTS)
    assert asked.messages == ({"role": "user", "content": "Hi"},)
    assert (asked.max_new_tokens, asked.stop, asked.stream, asked.include_usage) == (None, (), False, False)
    assert completion().max_new_tokens == 16


def test_what_is_said_holds():
    asked = chat(
        temperature=1,
        top_p=0.5,
        min_p=0.1,
        top_k=0,
        repetition_penalty=1.5,
        seed=3,
        stop="x",
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert asked.sampling == Sampling(1.0, 0, 0.5, 0.1, 1.5, 3)
    assert (asked.stop, asked.max_new_tokens, asked.stream, asked.include_usage) == (("x",), 5, True, True)
    assert chat(max_completion_tokens=7, max_tokens=5).max_new_tokens == 7
    assert chat(stop=["a", "b"]).stop == ("a", "b")


def test_null_says_nothing():
    assert chat(temperature=None, stop=None, n=None, tools=None, foo=None) == chat()
    assert chat(stream_options={"include_usage": None, "unknown": None}) == chat(stream_options={})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"temperature": 1e-8}, {"temperature": 0.0}),
        ({"temperature": 0.01}, {"temperature": 0.01}),
        ({"temperature": 1, "top_k": -1}, {"temperature": 1.0, "top_k": 0}),
        ({"temperature": 1, "top_p": 0}, {"temperature": 1.0, "top_p": 1e-6}),
    ],
)
def test_extremes_that_other_servers_take_are_taken(said, meant):
    read = read_chat(CHAT | said, Sampling())
    assert read.sampling == Sampling(**meant)
    assert fault(read.sampling) == ""


def test_negative_seeds_are_seeds_of_their_own():
    seeds = {chat(seed=seed).sampling.seed for seed in (-1, 1, 0, (1 << 63) - 1, -(1 << 63))}
    assert len(seeds) == 5
    assert all(0 <= seed < 1 << 64 for seed in seeds)


def test_messages_may_come_in_parts_and_from_a_developer():
    parts = [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    assert chat(messages=messages).messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi there"},
    )


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ("a",)),
        (["a"], ("a",)),
        ([1, 2], ((1, 2),)),
        ([[1, 2]], ((1, 2),)),
        ([7], ((7,),)),
        (["a", "b"], ("a", "b")),
        ([[1], [2, 3]], ((1,), (2, 3))),
    ],
)
def test_a_prompt_is_a_text_or_tokens_or_several(prompt, prompts):
    assert completion(prompt=prompt).prompts == prompts


@pytest.mark.parametrize(
    "harmless",
    [
        {"n": 1},
        {"logprobs": False},
        {"presence_penalty": 0.0},
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"user": "me"},
        {"metadata": {"a": "b"}},
    ],
)
def test_what_asks_for_nothing_is_let_pass(harmless):
    assert chat(**harmless) == chat()


@pytest.mark.parametrize(
    ("settings", "parameter"),
    [
        ({"n": 0}, "n"),
        ({"n": 33}, "n"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": 10**400}, "temperature"),
        ({"presence_penalty": -(10**400)}, "presence_penalty"),
        ({"logit_bias": {"1": 10**400}}, "logit_bias.1"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 0.5}, "top_k"),
        ({"seed": 1.0}, "seed"),
        ({"seed": 1 << 64}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1 << 31}, "max_tokens"),
        ({"stop": 3}, "stop"),
        ({"stop": [3]}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"stream_options": 1}, "stream_options"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}}, "reasoning_effort"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"self": 1}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"model": 3}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    ],
)
def test_what_cannot_be_is_named(settings, parameter):
    with pytest.raises(FaultError) as refused:
        chat(**settings)
    fault = refused.value.fault
    assert (fault.status, fault.parameter) == (400, parameter)
    assert parameter in fault.message


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_tokens": 10**21}, "'max_tokens' must be a whole number, at least 1 and at most 2147483647"),
        ({"max_completion_tokens": 0}, "'max_completion_tokens' must be a whole number, at least 1 and at most 2147"),
        ({"top_k": -2}, "'top_k' must be a whole number, at least -1 and at most 2147483647"),
        ({"n": 33}, "'n' must be a whole number, at least 1 and at most 32"),
    ],
)
def test_both_limits_of_a_whole_number_are_told(settings, says):
    with pytest.raises(FaultError, match=says):
        chat(**settings)


@pytest.mark.parametrize("prompt", [[], ["a", [1]], [[1], "a"], [[1], []], [1, "a"], [-1], [True], 3, {}, ["a"] * 33])
def test_a_prompt_that_is_none(prompt):
    with pytest.raises(FaultError) as refused:
        completion(prompt=prompt)
    assert refused.value.fault.parameter == "prompt"


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"new_thing": 1}, "new_thing"), ({"stream_options": {"other": True}}, "stream_options.other")],
)
def test_what_is_not_known_is_ignored_and_told_or_refused(settings, name):
    assert chat(**settings) == replace(chat(), ignored=(name,))
    with pytest.raises(FaultError) as refused:
        read_chat(CHAT | settings, DEFAULTS, strict=True)
    assert (refused.value.fault.status, refused.value.fault.parameter) == (400, name)


def test_what_a_chat_template_is_given_comes_from_two_parameters():
    asked = chat(reasoning_effort="low", chat_template_kwargs={"enable_thinking": False, "reasoning_effort": "low"})
    assert asked.variables == {"enable_thinking": False, "reasoning_effort": "low"}


def test_each_choice_has_a_seed_of_its_own_and_the_first_the_requests():
    asked = chat(n=3, seed=-1)
    assert asked.count == 3
    assert [asked.sampling_of(index).seed for index in range(3)] == [(1 << 64) - 1, 0, 1]
    assert asked.sampling_of(0) == asked.sampling


def test_the_best_of_more_than_are_returned_is_not_chosen():
    assert completion(n=2, best_of=2) == completion(n=2)
    with pytest.raises(FaultError, match="'best_of' must be as large as 'n'"):
        completion(n=2, best_of=3)


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_what_is_missing_is_named(missing):
    with pytest.raises(FaultError, match=f"'{missing}' is missing"):
        read_chat({name: value for name, value in CHAT.items() if name != missing}, DEFAULTS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["model", "messages", "prompt", "stop", "n", "seed", "top_p", "stream_options", "tools", "x"])


@given(JSON | st.dictionaries(NAMES, JSON), st.sampled_from([read_chat, read_completion]))
def test_any_json_is_a_request_or_a_fault(body, read):
    statuses = []
    try:
        asked = read(body, DEFAULTS)
    except FaultError as error:
        statuses.append(error.fault.status)
    assert statuses == [400] or asked.model == body["model"]


SECRET = "[[private]]Anna Berg[[/private]]"


@pytest.mark.parametrize(
    "more",
    [
        {"stop": SECRET},
        {"stop": ["a", f"b {SECRET}"]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": [SECRET]}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {SECRET: {}}}}}},
        {"structured_outputs": {"choice": [SECRET]}},
        {"guided_choice": ["a", "[[ Private ]] misspelt"]},
        {"guided_regex": SECRET},
        {"guided_grammar": f'start: "{SECRET}"'},
        {"guided_json": json.dumps({"enum": [SECRET]}).replace("[[", "\\u005b[")},
    ],
)
def test_what_goes_to_the_server_beside_the_text_holds_nothing_private(more):
    (name,) = more
    for ask in (chat, completion):
        with pytest.raises(FaultError, match=f"'{name}' goes to the server, so it cannot hold private text") as refused:
            ask(**more)
        assert refused.value.fault.parameter == name
