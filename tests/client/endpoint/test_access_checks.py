"""Which requests are let in, and how large they may be."""

import asyncio
import json

import pytest

from client.endpoint import access_checks as gate_module
from client.endpoint.access_checks import MOST_BODY_BYTES, AccessChecks, access_rules_for, check_origin
from common.protocol.errors import MisuseError


async def app(scope, receive, send):
    """Answers with the number of bytes that it received."""
    message = await receive()
    assert not message.get("more_body")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


async def asked(rules, headers=None, path="/v1/models", body=(b"",), ends=True) -> tuple[int, bytes]:
    headers = {"host": "localhost:8080"} | (headers or {})
    coming = [{"type": "http.request", "body": each, "more_body": True} for each in body]
    if ends:
        coming.append({"type": "http.request", "body": b"", "more_body": False})
    answered = []

    async def receive():
        if not coming:
            await asyncio.Event().wait()
        return coming.pop(0)

    async def send(message):
        answered.append(message)

    scope = {
        "type": "http",
        "path": path,
        "method": "POST",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await AccessChecks(app, rules)(scope, receive, send)
    return answered[0]["status"], b"".join(each.get("body", b"") for each in answered)


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "LOCALHOST"])
async def test_its_own_machine_is_let_in(host):
    assert await asked(access_rules_for("127.0.0.1", None), {"host": host}) == (200, b"0")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "", "localhost.evil.example", "127.0.0.1.x", "["]
)
async def test_a_name_from_elsewhere_is_not(host):
    status, body = await asked(access_rules_for("127.0.0.1", None), {"host": host})
    assert status == 403
    assert json.loads(body)["error"]["code"] == "wrong_host"


@pytest.mark.parametrize("listening", ["127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"])
async def test_a_name_from_elsewhere_is_not_let_in_however_loopback_is_spelt(listening):
    assert (await asked(access_rules_for(listening, None), {"host": "evil.example"}))[0] == 403
    assert (await asked(access_rules_for("192.168.0.1", "key"), {"host": "gpu.lan", "authorization": "Bearer key"}))[
        0
    ] == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8080", 200),
        ("http://evil.example", 403),
        ("http://localhost:9999", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
async def test_pages_from_elsewhere_may_not_ask(origin, status):
    assert (await asked(access_rules_for("127.0.0.1", None), {"origin": origin}))[0] == status


@pytest.mark.parametrize(
    ("allowed", "path", "status"),
    [
        (("https://app.example",), "/v1/models", 200),
        (("*",), "/v1/models", 200),
        (("https://app.example",), "/health", 200),
        (("https://app.example",), "/page/link", 403),
        (("http://app.example",), "/v1/models", 403),
        ((), "/v1/models", 403),
    ],
)
async def test_pages_of_allowed_origins_may_ask_for_answers_alone(allowed, path, status):
    headers = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
    assert (await asked(access_rules_for("127.0.0.1", None, allowed), headers, path, (b"",)))[0] == status


async def test_a_page_that_hides_its_origin_is_not_let_in():
    rules = access_rules_for("127.0.0.1", None, ("*",))
    assert (await asked(rules, {"sec-fetch-site": "cross-site"}))[0] == 403


@pytest.mark.parametrize(
    "origin",
    [
        *("https://app.example", "http://localhost:3000", "*"),
        *("app://obsidian.md", "vscode-webview://0a1b", "tauri://localhost", "chrome-extension://abcdefgh"),
    ],
)
def test_an_origin_is_a_scheme_and_a_host(origin):
    assert check_origin(origin) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("", "app.example", "https://app.example/", "HTTPS://app.example", "file://", "http://[", "null"),
        *("://app.example", "app:obsidian.md", "app://obsidian.md/page", "data:text/html,"),
    ],
)
def test_what_is_no_origin_is_told(text):
    with pytest.raises(MisuseError, match="--allow-origin takes an origin"):
        check_origin(text)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [("Bearer secret", 200), ("Bearer wrong", 401), ("Bearer ", 401), ("secret", 401), ("Bearer sécret", 401)],
)
async def test_a_key_is_asked_for(authorization, status):
    headers = {"host": "anything", "authorization": authorization}
    assert (await asked(access_rules_for("0.0.0.0", "secret"), headers))[0] == status


async def test_a_key_does_not_open_this_machine_to_other_names():
    headers = {"host": "evil.example", "authorization": "Bearer secret"}
    assert (await asked(access_rules_for("127.0.0.1", "secret"), headers))[0] == 403


@pytest.mark.parametrize(
    ("path", "site", "status"),
    [("/health", "cross-site", 403), ("/health", "same-origin", 200), ("/", "cross-site", 200)],
)
async def test_pages_from_elsewhere_may_lead_to_the_page_and_read_nothing(path, site, status):
    assert (await asked(access_rules_for("127.0.0.1", None), {"sec-fetch-site": site}, path))[0] == status


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/", 200), ("/v1/models", 401), ("/healthy", 401)])
async def test_without_a_key_only_health_and_the_page_answer(path, status):
    assert (await asked(access_rules_for("0.0.0.0", "secret"), path=path))[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({}, 401),
        ({"authorization": "Bearer secret", "content-length": str(MOST_BODY_BYTES + 1)}, 413),
    ],
)
async def test_a_fault_has_the_shape_of_the_paths_api(headers, status):
    rules = access_rules_for("127.0.0.1", "secret")
    answers = {path: await asked(rules, headers, path) for path in ("/v1/models", "/api/chat")}
    assert [each for each, _ in answers.values()] == [status] * 2
    openai, ollama = (json.loads(body)["error"] for _, body in answers.values())
    assert ollama == openai["message"]


async def test_a_body_arrives_whole():
    assert await asked(access_rules_for("127.0.0.1", None), body=(b"ab", b"c" * 1000)) == (200, b"1002")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-length": str(MOST_BODY_BYTES + 1)}, (b"",)),
        ({"content-length": "-1"}, (b"",)),
        ({}, (b"x" * MOST_BODY_BYTES, b"x")),
        ({"content-length": "3"}, (b"x" * MOST_BODY_BYTES, b"x")),
    ],
)
async def test_a_body_that_is_too_long_is_not_read_to_its_end(headers, body):
    status, answer = await asked(access_rules_for("127.0.0.1", None), headers, body=body)
    assert status == 413
    assert json.loads(answer)["error"]["code"] == "body_too_long"


async def test_a_body_that_never_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gate_module, "_BODY_TIMEOUT_S", 0.0)
    assert (await asked(access_rules_for("127.0.0.1", None), ends=False))[0] == 408


@pytest.mark.parametrize("headers", [{"content-length": "1"}, {"transfer-encoding": "chunked"}])
@pytest.mark.parametrize("path", ["/health", "/", "/static/page.js"])
@pytest.mark.parametrize("key", [None, "secret"])
async def test_what_anybody_may_ask_has_no_body_and_none_is_read(path, headers, key):
    status, answer = await asked(access_rules_for("0.0.0.0", key), headers, path, body=(), ends=False)
    assert status == 413
    assert json.loads(answer)["error"]["code"] == "body_too_long"
