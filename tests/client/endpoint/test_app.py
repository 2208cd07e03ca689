"""client.endpoint.app without a service: requests for paths that do not exist, and requests that are malformed."""

import asyncio
import json

import pytest
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from client.endpoint.access_checks import access_rules_for
from client.endpoint.app import OpenAiPaths, make_app
from common.protocol.sampling import Sampling


@pytest.mark.parametrize(("sent", "said"), [(False, 503), (True, 200)])
async def test_an_answer_that_shutdown_cuts_off_says_so_where_nothing_was_sent(sent, said):
    asked, received, messages = asyncio.Event(), [{"type": "http.request"}], []

    async def endless(request):
        if not sent:
            asked.set()
            await asyncio.Event().wait()
        return StreamingResponse(parts())

    async def parts():
        yield b"a part"
        asked.set()
        await asyncio.Event().wait()

    async def receive():
        return received.pop() if received else await asyncio.Event().wait()

    async def send(message):
        messages.append(message)

    app = make_app([Route("/v1/completions", endless)], access_rules_for("127.0.0.1", None))
    scope = {"type": "http", "method": "GET", "path": "/v1/completions", "raw_path": b"/v1/completions"}
    scope |= {"query_string": b"", "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]}
    answering = asyncio.create_task(app(scope, receive, send))
    await asked.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert messages[0]["status"] == said
    if not sent:
        told = json.loads(messages[1]["body"])["error"]
        assert (told["type"], told["code"]) == ("server_error", "stopped")


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat"])
def test_a_path_that_is_not_here_is_named_in_openais_shape(path):
    answer = TestClient(make_app([], access_rules_for("127.0.0.1", None)), base_url="http://127.0.0.1").post(
        path, json={}
    )
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert (
        error["message"]
        == f"there is no {path} here; chat/completions, completions, responses and models are, all below /v1"
    )


def test_a_path_that_is_asked_otherwise_is_told_in_openais_shape():
    app = make_app([Route("/v1/completions", lambda _: None, methods=["POST"])], access_rules_for("127.0.0.1", None))
    answer = TestClient(app, base_url="http://127.0.0.1").get("/v1/completions")
    assert answer.status_code == 405
    assert answer.json()["error"]["message"] == "/v1/completions does not take GET; use POST"


def test_embeddings_are_refused_in_one_sentence():
    paths = OpenAiPaths(None, Sampling(seed=0), dict)
    app = make_app(paths.routes(), access_rules_for("127.0.0.1", None))
    answer = TestClient(app, base_url="http://127.0.0.1").post("/v1/embeddings", json={})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"].startswith("there are no embeddings here")


def test_a_browser_is_told_which_pages_may_ask():
    def preflight(*origins: str):
        app = make_app([], access_rules_for("127.0.0.1", "secret", origins))
        headers = {
            "origin": "https://app.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        return TestClient(app, base_url="http://127.0.0.1").options("/v1/chat/completions", headers=headers)

    allowed = preflight("https://app.example")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    for refused in (preflight("https://other.example"), preflight()):
        assert refused.status_code in (400, 403)
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    "body", ['{"\\ud800": 1}', '{"stream_options": {"\\ud800": 1}}', '{"model": 1, "\\u001b]0;x\\u0007": 1}']
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_parameter_whose_name_is_no_text_is_refused_in_openais_shape(path, body):
    body = '{"messages": [{"role": "user", "content": ""}], "prompt": "", "model": "outrider", ' + body[1:]
    paths = OpenAiPaths(None, Sampling(seed=0), dict, strict=True)
    client = TestClient(make_app(paths.routes(), access_rules_for("127.0.0.1", None)), base_url="http://127.0.0.1")
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].isprintable()


@pytest.mark.parametrize(
    "number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 5000, "-" + "9" * 1001, "9" * 5000 + ".0"]
)
def test_a_number_that_cannot_be_held_is_refused_in_few_words(number):
    body = f'{{"model": "outrider", "messages": [{{"role": "user", "content": ""}}], "tools": [{{"x": {number}}}]}}'
    paths = OpenAiPaths(None, Sampling(seed=0), dict)
    client = TestClient(make_app(paths.routes(), access_rules_for("127.0.0.1", None)), base_url="http://127.0.0.1")
    answer = client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    message = answer.json()["error"]["message"]
    assert len(message) < 120
    assert "sys." not in message


def test_a_long_whole_number_is_still_read():
    paths = OpenAiPaths(None, Sampling(seed=0), dict)
    client = TestClient(make_app(paths.routes(), access_rules_for("127.0.0.1", None)), base_url="http://127.0.0.1")
    body = f'{{"model": "outrider", "prompt": "", "max_tokens": -{"9" * 1000}}}'
    answer = client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "max_tokens")


def test_json_that_is_nested_too_deeply_is_called_so():
    paths = OpenAiPaths(None, Sampling(seed=0), dict)
    client = TestClient(make_app(paths.routes(), access_rules_for("127.0.0.1", None)), base_url="http://127.0.0.1")
    answer = client.post("/v1/completions", content="[" * 100_000, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert "the body's JSON is nested too deeply" in answer.json()["error"]["message"]
