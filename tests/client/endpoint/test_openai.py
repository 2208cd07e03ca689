"""OpenAI's own client, and programs that use it, against `outrider serve` before a real server."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from typing import Literal

import httpx2
import openai
import pydantic
import pytest

from tests.client.endpoint.serving import MODEL, QUESTION, client_of, outrider_serve, pieces
from tests.daemon import outriderd
from tests.families import make_checkpoint
from tests.programs import command

TOKENS = 40


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """Of an endpoint that answers three requests at once."""
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "target", "llama", seed=1)
    make_checkpoint(folder / "independent", "llama", seed=1)
    models = ("--target", str(folder / "target"), "--draft", str(folder / "independent"))
    with (
        outriderd(*models, "--dtype", "float64", "--pace-pass", "20ms") as (_, server),
        outrider_serve("--server", server, "--cache-dir", str(folder / "cache"), "--parallel", "3") as address,
    ):
        yield address


@pytest.fixture(scope="module")
def client(address) -> openai.OpenAI:
    return client_of(address)


def ask(client, **settings):
    return client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=TOKENS, **settings)


@pytest.fixture(scope="module")
def expected(client) -> str:
    text = ask(client).choices[0].message.content
    assert len(text) > TOKENS / 2
    return text


def test_streamed_and_whole_answers_are_the_same(client, expected):
    stream = list(ask(client, stream=True, stream_options={"include_usage": True}))
    texts = pieces(stream)
    assert "".join(texts) == expected
    assert sum(map(bool, texts)) > 1
    assert [chunk.choices[0].finish_reason for chunk in stream if chunk.choices][-1] == "length"
    assert stream[-1].usage.completion_tokens == TOKENS
    assert {chunk.system_fingerprint for chunk in stream} == {stream[0].system_fingerprint}
    assert stream[0].system_fingerprint.startswith("fp_")


def test_a_whole_answer_says_what_it_cost(client, expected):
    whole = ask(client)
    assert whole.choices[0].message.content == expected
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + TOKENS
    assert whole.outrider["offline"] is False
    assert whole.outrider["stats"]["tokens"] == TOKENS


def test_log_probabilities_are_told_of_every_token_streamed_or_whole(client, expected):
    asked = {"logprobs": True, "top_logprobs": 3}
    (choice,) = ask(client, **asked).choices
    assert choice.message.content == expected
    told = choice.logprobs.content
    assert b"".join(bytes(token.bytes) for token in told).decode(errors="replace") == expected
    assert all(token.logprob == token.top_logprobs[0].logprob for token in told)  # as the likeliest is chosen
    assert all(len(token.top_logprobs) == 3 for token in told)
    chunks = [chunk.choices[0].logprobs for chunk in ask(client, stream=True, **asked)]
    assert [token for part in chunks if part for token in part.content] == told
    assert ask(client).choices[0].logprobs is None


def test_a_completion_cut_by_a_stop_string_tells_of_what_precedes_it(client):
    def complete(**settings):
        prompt = "def add(a, b):"
        return client.completions.create(model=MODEL, prompt=prompt, max_tokens=TOKENS, **settings).choices[0]

    whole = complete(logprobs=2)
    assert "".join(whole.logprobs.tokens).startswith(whole.text[:5])
    stop = whole.text[8:11]
    cut = complete(logprobs=2, stop=[stop])
    offsets = cut.logprobs.text_offset
    assert offsets == [each for each in whole.logprobs.text_offset if each < len(cut.text)]
    assert cut.logprobs.token_logprobs == whole.logprobs.token_logprobs[: len(offsets)]
    with pytest.raises(openai.BadRequestError, match="leave 'echo' or 'logprobs' out"):
        complete(logprobs=2, echo=True)


class Answer(pydantic.BaseModel):
    kind: Literal["sum", "product"]
    numbers: list[bool]


def test_openais_own_helper_gets_an_object_of_its_class(client):
    """From a target that has never seen JSON."""
    asked = {"model": MODEL, "messages": QUESTION, "response_format": Answer}
    parsed = [client.chat.completions.parse(**asked, temperature=1.0, seed=seed) for seed in range(2)]
    for answer in parsed:
        assert isinstance(answer.choices[0].message.parsed, Answer)
    again = client.chat.completions.parse(**asked, temperature=1.0, seed=0)
    assert again.choices[0].message.content == parsed[0].choices[0].message.content


def test_the_responses_of_openais_own_helpers(client, expected):
    def respond(create, **settings):
        return create(model=MODEL, input=QUESTION, max_output_tokens=TOKENS, **settings)

    whole = respond(client.responses.create, top_logprobs=2)
    assert (whole.output_text, whole.status) == (expected, "incomplete")
    assert whole.usage.output_tokens == TOKENS
    told = whole.output[0].content[0].logprobs
    assert b"".join(bytes(token.bytes) for token in told).decode(errors="replace") == expected
    with respond(client.responses.stream) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == expected
    parsed = client.responses.parse(model=MODEL, input=QUESTION, text_format=Answer, temperature=1.0)
    assert isinstance(parsed.output_parsed, Answer)
    with pytest.raises(openai.BadRequestError, match="no response is kept here"):
        respond(client.responses.create, previous_response_id=whole.id)
    with pytest.raises(openai.BadRequestError, match="maximum context length is") as refused:
        client.responses.create(model=MODEL, input="word " * 500)
    assert refused.value.param == "input"
    stored = client.responses.with_raw_response.create(model=MODEL, input="Hi", max_output_tokens=1, store=True)
    assert stored.headers["warning"] == '299 outrider "ignored: store"'


def test_a_streamed_choice_is_one_of_those_given(client):
    choices = ["a long answer of many words", "another one"]
    stream = ask(client, stream=True, extra_body={"structured_outputs": {"choice": choices}})
    assert "".join(pieces(stream)) in choices


def test_a_schema_that_cannot_be_met_is_refused_with_its_part(client):
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"properties": {"a": {"type": "strin"}}}}}
    with pytest.raises(openai.BadRequestError, match="strin") as refused:
        ask(client, response_format=form)
    assert refused.value.param == "response_format"


def test_penalties_and_bias_change_the_answer(client, expected):
    for changed in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"logit_bias": {"70": 100}}):
        assert ask(client, **changed).choices[0].message.content != expected
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        ask(client, logit_bias={"100000": 1})


def test_the_same_seed_draws_the_same_text_and_another_one_another(client):
    def drawn(**settings) -> str:
        return ask(client, temperature=1.0, **settings).choices[0].message.content

    assert drawn(seed=5) == drawn(seed=5)
    assert len({drawn(seed=seed) for seed in (-1, 5, 6)}) == 3
    assert drawn() != drawn(), "each request without a seed has one of its own"


def test_more_requests_than_are_answered_at_once_are_all_answered_and_exact(address, expected):
    async def all_at_once() -> list[str]:
        client = openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0)
        answers = await asyncio.gather(*(ask(client) for _ in range(8)))
        return [answer.choices[0].message.content for answer in answers]

    assert asyncio.run(all_at_once()) == [expected] * 8


def test_a_conversation_goes_on(client, expected):
    messages = [*QUESTION, {"role": "assistant", "content": expected}, {"role": "user", "content": "And then?"}]
    answers = {
        client.chat.completions.create(model=MODEL, messages=messages, max_tokens=8).choices[0].message.content
        for _ in range(2)
    }
    assert len(answers) == 1


def test_stop_strings_end_the_text_before_them(client, expected):
    stop = expected[len(expected) // 2 :][:3]
    answer = ask(client, stop=stop).choices[0]
    assert answer.message.content == expected[: expected.index(stop)]
    assert answer.finish_reason == "stop"


def test_plain_completions_take_text_and_tokens(client):
    texts = [
        client.completions.create(model=MODEL, prompt=prompt, max_tokens=8).choices[0].text
        for prompt in ("def add(", ["def add("], [5, 6, 7])
    ]
    assert texts[0] == texts[1]
    assert texts[2] != texts[0]
    streamed = client.completions.create(model=MODEL, prompt="def add(", max_tokens=8, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == texts[0]
    assert client.completions.create(model=MODEL, prompt=[5, 6, 7]).usage.completion_tokens == 16


def test_models_are_listed_and_the_target_goes_by_two_names(client):
    names = [model.id for model in client.models.list()]
    assert names[1] == MODEL
    assert client.models.retrieve(names[0]).id == names[0] != MODEL
    with pytest.raises(openai.NotFoundError, match="'gpt' is not served here"):
        client.models.retrieve("gpt")


def test_a_closed_stream_ends_the_answer_and_frees_its_place(address, client, expected):
    for _ in range(6):  # twice as many as there are places
        stream = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=350, stream=True)
        assert next(iter(stream))
        stream.close()
    assert ask(client).choices[0].message.content == expected
    assert httpx2.get(f"http://{address}/health").json()["answering"] == 0


@pytest.mark.parametrize(
    ("settings", "error", "parameter", "message"),
    [
        ({"model": "gpt"}, openai.NotFoundError, "model", "ask for"),
        ({"top_logprobs": 2}, openai.BadRequestError, "top_logprobs", "'top_logprobs' needs 'logprobs'"),
        ({"logprobs": True, "top_logprobs": 21}, openai.BadRequestError, "top_logprobs", "at most 20"),
        ({"n": 33}, openai.BadRequestError, "n", "'n' must be a whole number, at least 1 and at most 32"),
        ({"stop": [""]}, openai.BadRequestError, None, "a stop string must have"),
        (
            {"messages": [{"role": "user", "content": "word " * 500}]},
            openai.BadRequestError,
            "messages",
            "maximum context",
        ),
        ({"messages": [{"role": "user", "content": "[[private]]"}]}, openai.BadRequestError, "messages", "not closed"),
    ],
)
def test_what_cannot_be_is_said_as_openai_says_it(client, settings, error, parameter, message):
    with pytest.raises(error, match=message) as refused:
        client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, "max_tokens": 4} | settings)
    assert refused.value.param == parameter
    assert refused.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"model": NaN}', "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * (4 * 1024 * 1024 + 1), "application/json", 413),
    ],
    ids=["cut off", "deep", "no number", "another type", "too long"],
)
def test_bodies_that_are_none(address, body, content_type, status):
    url = f"http://{address}/v1/chat/completions"
    answer = httpx2.post(url, content=body, headers={"content-type": content_type})
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_private_text_is_answered_here_and_says_so(client):
    messages = [{"role": "user", "content": "Sum up: [[private]]a secret[[/private]]"}]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=12)
    assert answer.outrider["private"]
    assert answer.outrider["offline"]
    assert answer.system_fingerprint.startswith("fp_offline_")
    assert answer.usage.completion_tokens == answer.outrider["unconfirmed_tokens"] == 12
    streamed = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=12, stream=True)
    assert "".join(pieces(streamed)) == answer.choices[0].message.content


def test_marks_are_kept_whoever_speaks_and_never_pass_as_tokens(client, address):
    messages = [{"role": "system", "content": "Know this: [[private]]PIN 1234[[/private]]"}, *QUESTION]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)
    assert answer.outrider["private"]


def test_a_text_that_cannot_fit_is_refused_before_it_is_read(client):
    with pytest.raises(
        openai.BadRequestError, match=r"has \d+ characters, but this model's maximum context length is \d+ tokens"
    ) as refused:
        client.completions.create(model=MODEL, prompt="a" * 3_000_000)
    assert refused.value.code == "context_length_exceeded"


def test_the_llm_program_works_unchanged(address, expected, tmp_path):
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: {MODEL}\n  model_name: {MODEL}\n  api_base: http://{address}/v1\n"
    )
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    for wish in ((), ("--no-stream",)):
        line = [command("llm"), "-m", MODEL, "-o", "max_tokens", str(TOKENS), *wish, QUESTION[0]["content"]]
        out = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
        assert out.strip() == expected.strip()
