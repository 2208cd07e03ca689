"""What becomes of a request before any server is asked: real grammars and formats, and a client that reaches nobody."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from client.answering import AnswerOptions, find_policy
from client.endpoint.access_checks import access_rules_for
from client.endpoint.answer_on_conversation import Choice
from client.endpoint.answer_parsers.answer_format import find_syntax
from client.endpoint.app import OpenAiPaths, make_app
from client.endpoint.faults import FaultError
from client.endpoint.monitor import Monitor
from client.endpoint.ollama_paths import OllamaPaths
from client.endpoint.openai_requests import read_chat, read_completion
from client.endpoint.page import PageContext, PagePaths
from client.endpoint.responses_paths import ResponsesPaths
from client.endpoint.service import EndpointDefaults, Service, WhenOffline
from client.link.link_state import LinkState
from client.link.offline import OfflineOptions
from client.text import raw_tokens
from common.protocol.constraint import Grammar
from common.protocol.errors import PeerError
from common.protocol.messages import Constraint, FailureCode
from common.protocol.sampling import Sampling
from common.sampling.grammar import MOST_KEPT, Grammars
from tests.client.demo.answers import answer as whole_answer
from tests.client.endpoint.answer_parsers.test_answer_grammars import ADD, LOOK, Setting

TEMPLATE = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}Hi"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
STRICT = {**ADD, "function": {**ADD["function"], "strict": True}}


class ReachedError(Exception):
    """An answer has begun."""


class NoPool:
    def __init__(self):
        self.asked = 0

    def conversation(self, *_, **__):
        self.asked += 1
        raise ReachedError


class OneConversation:
    """A pool whose conversation answers nothing itself."""

    @asynccontextmanager
    async def conversation(self, *_, **__):
        yield SimpleNamespace(
            session=None,
            offline=OfflineOptions(),
            cancel=None,
            logprobs_of=lambda _: None,
            upload_s=lambda: 0.0,
            accept_unverified=None,
        )


def service(
    syntax: str,
    pool: NoPool | OneConversation,
    *,
    strict: bool = False,
    note: str = "",
    bundle: Path = Path(),
    template: str = TEMPLATE,
) -> Service:
    setting = Setting("hermes", special=True)
    setting.tokenizer.chat_template = template
    description = SimpleNamespace(
        end_tokens={setting.end},
        context=1 << 17,
        vocab_size=len(setting.tokenizer),
        logprobs=True,
        model="m",
        fingerprint="f",
    )
    client = SimpleNamespace(
        tokenizer=setting.tokenizer,
        description=description,
        bundle=bundle,
        manifest=SimpleNamespace(id="d"),
        constrain=setting._grammars,
        require_rule=lambda _: None,
    )
    defaults = EndpointDefaults(
        AnswerOptions(find_policy("stream"), 9), None, WhenOffline.ANSWER, find_syntax(syntax), strict, note
    )
    return Service(client, pool, defaults, lambda _: None)


def choices(body: dict, syntax: str = "hermes", **settings):
    return service(syntax, NoPool(), **settings).choices(read_chat({**BODY, **body}, Sampling(seed=1)))


def tools(count: int, described: int) -> list[dict]:
    """Strict tools whose parameters have a description of so many characters."""
    function = STRICT["function"]
    schema = {**function["parameters"], "description": "x" * described}
    named = ({**function, "name": f"add_{index}", "parameters": schema} for index in range(count))
    return [{"type": "function", "function": each} for each in named]


def test_a_schema_that_could_end_the_process_is_refused():
    chained = {str(index): {"$ref": f"#/$defs/{index + 1}"} for index in range(3000)}
    schema = {"$defs": {**chained, "3000": {"type": "null"}}, "$ref": "#/$defs/0"}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    with pytest.raises(FaultError, match="more than the 32768 allowed") as refused:
        choices({"response_format": form})
    assert refused.value.fault.parameter == "response_format"
    calls = [{**STRICT, "function": {**STRICT["function"], "parameters": schema}}]
    with pytest.raises(FaultError, match="more than the 12288 allowed") as refused:
        choices({"tools": calls, "tool_choice": "required"})
    assert refused.value.fault.parameter == "tools"


def test_a_text_with_a_token_that_the_target_has_no_logits_for_is_refused():
    """Gemma 3's tokenizer has a token for images, which its smallest models do not know."""
    asked = service("hermes", NoPool())
    asked._client.description.vocab_size = 1 + asked._client.tokenizer.convert_tokens_to_ids("H")
    beyond = asked._client.tokenizer.convert_tokens_to_ids("i")
    assert beyond >= asked._client.description.vocab_size
    with pytest.raises(
        FaultError, match=f"the prompt holds token {beyond}, which this target does not know"
    ) as refused:
        asked.choices(read_chat(BODY, Sampling(seed=1)))
    assert (refused.value.fault.status, refused.value.fault.parameter) == (400, "messages")


def test_a_prompt_without_room_for_an_answer_is_told_in_the_words_that_apps_look_for():
    """LiteLLM knows by them that a conversation is to be shortened, and opencode by the code too."""
    asked = service("hermes", NoPool())
    asked._client.description.context = 2
    with pytest.raises(FaultError, match="this model's maximum context length is 2 tokens") as refused:
        asked.choices(read_chat(BODY, Sampling(seed=1)))
    assert (refused.value.fault.status, refused.value.fault.code) == (400, "context_length_exceeded")


def test_a_schema_that_takes_too_long_to_compile_is_refused_and_others_are_not():
    """A few hundred characters would take for ever."""
    schema = {"type": "string", "allOf": [{"pattern": f"a.{{{index}}}b"} for index in range(1, 24)]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    began, models = time.process_time(), SimpleNamespace(find=lambda _: service("hermes", NoPool()))
    app = make_app(OpenAiPaths(models, Sampling(seed=0), dict).routes(), access_rules_for("127.0.0.1", None))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        answer = client.post("/v1/chat/completions", json={**BODY, "response_format": form})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (400, "response_format", "invalid_request_error")
    assert error["message"].startswith("the JSON schema for the answer takes too long or too much memory to compile; ")
    assert time.process_time() - began < 5
    form["json_schema"]["schema"] = {"type": "string", "allOf": [{"pattern": "^[a-z]+$"}, {"pattern": "b"}]}
    (choice,) = choices({"response_format": form})
    assert choice.options.constraint is not None


def test_descriptions_do_not_count_in_schemas_of_strict_tools():
    (choice,) = choices({"tools": tools(10, described=2000)})
    assert choice.unheeded == ()
    assert choice.options.constraint is not None


def test_strict_tools_that_are_too_many_are_free_which_is_told_or_refused():
    many = {"tools": tools(90, described=0)}
    (choice,) = choices(many)
    assert choice.options.constraint is None
    assert choice.unheeded == tuple(f"tools[{index}].function.strict" for index in range(90))
    with pytest.raises(FaultError, match="too long for one constraint") as refused:
        choices(many, strict=True)
    assert refused.value.fault.parameter == "tools[0].function.strict"


@pytest.mark.parametrize(
    ("path", "asked", "named"),
    [
        ("/v1/chat/completions", {**BODY, "tools": [LOOK, STRICT]}, "tools[1].function.strict"),
        (
            "/v1/responses",
            {"model": "m", "input": "Hi", "tools": [{"type": "function", **STRICT["function"]}]},
            "tools[0].strict",
        ),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_strict_tools_without_effect_are_named_before_an_answer_begins(path, asked, named, strict):
    pool = NoPool()
    models = SimpleNamespace(find=lambda _: service("llama3-json", pool, strict=strict))
    paths = (OpenAiPaths(models, Sampling(seed=0), dict), ResponsesPaths(models, Sampling(seed=0)))
    app = make_app([route for each in paths for route in each.routes()], access_rules_for("127.0.0.1", None))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        answer = client.post(path, json=asked)
    if strict:
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, named)
        assert pool.asked == 0
    else:
        assert pool.asked == 1


def choices_over_http(serving: Service, path: str, asked: dict) -> list[Choice]:
    """What becomes of a request before an answer begins."""
    made: list[Choice] = []
    choices_of = serving.choices

    def record(request):
        found = choices_of(request)
        made.extend(found)
        return found

    serving.choices = record
    models, defaults = SimpleNamespace(find=lambda _: serving), Sampling(seed=0)
    monitor = Monitor(LinkState.ONLINE, None, lambda: True)
    paths = (
        OpenAiPaths(models, defaults, dict),
        ResponsesPaths(models, defaults),
        OllamaPaths(models, defaults),
        PagePaths(PageContext(serving._client, models, monitor, defaults, None, None, lambda: True)),
    )
    app = make_app([route for each in paths for route in each.routes()], access_rules_for("127.0.0.1", None))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.post(path, json=asked)
    return made


@pytest.mark.parametrize(
    ("path", "asked", "is_read"),
    [
        ("/v1/chat/completions", {**BODY, "stream": True}, True),
        ("/v1/chat/completions", BODY, False),
        ("/v1/completions", {"model": "m", "prompt": "Hi", "stream": True}, False),
        ("/v1/responses", {"model": "m", "input": "Hi", "stream": True}, False),
        ("/api/chat", {**BODY, "stream": True}, True),
        ("/api/generate", {"model": "m", "prompt": "Hi", "stream": True}, False),
    ],
)
def test_the_line_of_a_drafts_answer_is_in_streamed_chats_alone(path, asked, is_read):
    made = choices_over_http(service("hermes", NoPool(), note="(alone)"), path, asked)
    assert [choice.offline_note for choice in made] == ["\n\n(alone)" if is_read else ""]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", {**BODY, "n": 32}),
        ("/v1/completions", {"model": "m", "prompt": "Hi", "n": 32}),
        ("/v1/responses", {"model": "m", "input": "Hi"}),
        ("/api/chat", BODY),
        ("/api/generate", {"model": "m", "prompt": "Hi"}),
        ("/page/answer", BODY),
    ],
)
def test_a_seed_that_is_drawn_is_a_whole_number_of_javascripts(monkeypatch, path, asked):
    for module in ("app", "responses_paths", "ollama_paths", "page"):
        monkeypatch.setattr(f"client.endpoint.{module}.randbits", lambda bits: (1 << bits) - 1)
    seeds = [choice.options.sampling.seed for choice in choices_over_http(service("hermes", NoPool()), path, asked)]
    assert len(seeds) == asked.get("n", 1)
    assert min(seeds) > 1 << 51
    assert max(seeds) < 1 << 53


def page_answer(made: Service, choice: Choice) -> Awaitable[object]:
    return made.show(choice.prompt, choice.options, lambda _: None, lambda *_: None, lambda _: None)


def app_answer(made: Service, choice: Choice) -> Awaitable[object]:
    return made.answer(choice, lambda _: None)


ANSWERS = pytest.mark.parametrize("answer", [app_answer, page_answer])


@ANSWERS
async def test_no_constraint_is_compiled_on_the_event_loop(monkeypatch, answer: Callable):
    """Though the session asks for it there, and others have been compiled since the request came, and since then."""
    threads: list[int] = []
    compile_ = Grammars._compile

    def recorded(grammars, constraint, most_s):
        threads.append(threading.get_ident())
        return compile_(grammars, constraint, most_s)

    async def compile_others(begun: str):
        for index in range(MOST_KEPT):
            await asyncio.to_thread(made._client.constrain, Constraint(Grammar.REGEX, f"{begun}{index}"))

    async def answered(prompt, settings, on_tokens, on_link_change):
        await compile_others("b")
        assert made._client.constrain(settings.constraint) is not None
        return whole_answer(())

    monkeypatch.setattr(Grammars, "_compile", recorded)
    made = service("hermes", OneConversation())
    made._client.privacy_router = lambda _: SimpleNamespace(answer=answered)
    (choice,) = await asyncio.to_thread(made.choices, read_chat({**BODY, "guided_regex": "x+"}, Sampling(seed=1)))
    await compile_others("a")
    await answer(made, choice)
    assert len(threads) == 2 + 2 * MOST_KEPT
    assert threading.get_ident() not in threads


@ANSWERS
async def test_a_constraint_that_can_no_longer_be_compiled_is_the_requests_fault(answer: Callable):
    async def answered(prompt, settings, on_tokens, on_link_change):
        made._client.constrain(settings.constraint)

    made = service("hermes", OneConversation())
    made._client.privacy_router = lambda _: SimpleNamespace(answer=answered)
    (choice,) = made.choices(read_chat({**BODY, "guided_regex": "x+"}, Sampling(seed=1)))

    def refuse(_):
        raise PeerError("the regular expression for the answer takes too long", FailureCode.INVALID)

    made._client.constrain = refuse
    with pytest.raises(FaultError, match="takes too long") as refused:
        await answer(made, choice)
    assert refused.value.fault.status == 400


@pytest.mark.parametrize(
    ("configuration", "family"),
    [
        ('{"model_type": "qwen3"}', "qwen3"),
        ('{"model_type": "qwen\\n3"}', ""),
        ('{"model_type": 3}', ""),
        ("[]", ""),
        (None, ""),
    ],
)
def test_a_targets_family_is_what_its_configuration_in_the_bundle_says(tmp_path, configuration, family):
    if configuration is not None:
        (tmp_path / "tokenizer").mkdir()
        (tmp_path / "tokenizer" / "config.json").write_text(configuration)
    serving = service("hermes", NoPool(), bundle=tmp_path)
    assert (serving.family, serving.digest) == (family, "f")


@pytest.mark.parametrize(
    ("template", "more"),
    [(TEMPLATE, ["tools"]), ("<think></think>", ["thinking"]), (f"{TEMPLATE}</think>", ["tools", "thinking"])],
)
def test_a_target_can_do_what_its_template_shows(template, more):
    serving = service("hermes", NoPool(), template=template)
    assert (serving.template, serving.capabilities()) == (template, ["completion", *more])


def test_end_tokens_are_no_text_of_an_answer():
    setting = Setting("hermes", special=True)
    assert set(choices({})[0].form.ends) == {setting.end}


@pytest.mark.parametrize("as_tokens", [False, True])
def test_the_answer_to_a_raw_prompt_goes_on_in_its_text(as_tokens):
    made = service("hermes", NoPool())
    body = {"model": "m", "prompt": raw_tokens(made.tokenizer, "the quick") if as_tokens else "the quick"}
    raw = made.choices(read_completion(body, Sampling(seed=1)))[0]
    assert raw.form.before == raw.prompt.tokens[-1:]
    assert made.choices(read_chat(BODY, Sampling(seed=1)))[0].form.before == ()
