"""The page's own paths over HTTP, without a server behind them."""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from client.answering import AnswerOptions, require_rule
from client.drafting.policies import STREAM
from client.endpoint.access_checks import access_rules_for
from client.endpoint.answer_on_conversation import Choice
from client.endpoint.answer_parsers.pieces import PlainText
from client.endpoint.app import make_app
from client.endpoint.faults import wrong
from client.endpoint.monitor import Monitor
from client.endpoint.page import PageContext, PagePaths
from client.endpoint.served_models import ServedModels
from client.endpoint.stream_emitter import TextForm
from client.link.link_state import LinkState
from client.private.spans import SplitPrompt
from common.protocol.sampling import Sampling

KEY = "secret"
LOADED = sorted(file.name for file in files("client.endpoint").joinpath("static").iterdir())
STATIC = ("/", *(f"/static/{name}" for name in LOADED if name != "index.html"))


CHOICE = Choice(SplitPrompt((1,)), AnswerOptions(STREAM, 16), TextForm((), PlainText(), {}, ()), is_verified=False)


class FakeSwitch:
    is_cut = False

    def turn(self, *, cut: bool) -> None:
        self.is_cut = cut


async def sign() -> float:
    return 0.04


def client_of(
    switch=None, key: str | None = None, closing: Sequence[bool] = (True,), rule: str | None = None
) -> TestClient:
    """`closing` is what is heard of the end, each time that it is asked for."""
    server = SimpleNamespace(
        access=SimpleNamespace(address="far.example:7070"),
        description=SimpleNamespace(model="big", rules=("greedy", "coupled", "typical", "unheard-of")),
        draft="small",
        require_rule=lambda rule: require_rule(rule, ("greedy", "coupled", "typical")),
    )
    service = SimpleNamespace(model="big", context=100, tokenizer=None, choices=lambda _: [CHOICE])
    heard = iter(closing)
    monitor = Monitor(LinkState.ONLINE, sign, lambda: False)
    scene = PageContext(server, ServedModels([service]), monitor, Sampling(), rule, switch, lambda: next(heard))
    app = make_app(PagePaths(scene).routes(), access_rules_for("127.0.0.1", key))
    return TestClient(app, base_url="http://localhost")


@pytest.mark.parametrize("path", STATIC)
def test_what_is_the_same_for_everybody_needs_no_key_and_may_load_nothing_from_elsewhere(path):
    answer = client_of(key=KEY).get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"(?<!xmlns=)[\"'(](https?:)?//", answer.text)


def test_the_page_names_only_files_that_there_are_and_leaves_none_out():
    client = client_of()
    named = re.findall(r'(?:href|src)="([^"]+)"', client.get("/").text)
    imported = [name for path in STATIC for name in re.findall(r'from "\./([^"]+)"', client.get(path).text)]
    assert {*named, *(f"/static/{name}" for name in imported)} == set(STATIC) - {"/"}
    assert all(client.get(path).status_code == 200 for path in named)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/page/answer"), ("GET", "/page/status"), ("GET", "/page/choices"), ("POST", "/page/link")],
)
def test_the_rest_needs_the_key(method, path):
    client = client_of(FakeSwitch(), KEY)
    assert client.request(method, path, json={}).status_code == 401


def test_the_state_is_told_until_the_end():
    with client_of(FakeSwitch(), closing=(False, True)).stream("GET", "/page/status") as answer:
        lines = [line for line in answer.iter_lines() if line]
    (state,) = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert state == {
        "link": "online",
        "rtt_ms": None,
        "tokens_per_second": None,
        "bytes_up": 0,
        "bytes_down": 0,
        "server": "far.example:7070",
        "model": "big",
        "draft": "small",
        "is_cut": False,
    }


def test_a_switch_is_turned():
    switch = FakeSwitch()
    client = client_of(switch)
    for cut in (True, False):
        assert client.post("/page/link", json={"cut": cut}).status_code == 204
        assert switch.is_cut is cut


@pytest.mark.parametrize("body", [{}, {"cut": 1}, {"cut": None}, [], True])
def test_a_switch_is_turned_by_nothing_else(body):
    answer = client_of(FakeSwitch()).post("/page/link", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "cut"


def test_there_is_no_switch_where_the_link_is_not_ours():
    assert client_of().post("/page/link", json={"cut": True}).status_code == 404


@pytest.mark.parametrize("path", ["/page/answer", "/page/link"])
def test_a_form_of_a_page_from_elsewhere_is_refused(path):
    answer = client_of(FakeSwitch()).post(path, content="{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert "'Content-Type: application/json'" in answer.text


def test_a_question_that_is_none_is_refused_before_anything_is_asked():
    answer = client_of().post("/page/answer", json={"model": "outrider", "messages": []})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"


@pytest.mark.parametrize(("set_for_all", "told"), [(None, "coupled"), ("typical", "typical")])
def test_what_may_be_chosen_is_told(set_for_all, told):
    assert client_of(rule=set_for_all).get("/page/choices").json() == {
        "models": ["big"],
        "rules": ["greedy", "coupled", "typical"],
        "rule": told,
        "temperature": 0.0,
    }


@pytest.mark.parametrize("rule", ["speculative", "typical ", 3, [], True])
def test_a_rule_that_the_server_does_not_have_is_refused(rule):
    messages = [{"role": "user", "content": "Hello?"}]
    answer = client_of().post("/page/answer", json={"model": "outrider", "messages": messages, "rule": rule})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "rule"


@pytest.mark.parametrize(
    ("asked", "answered"), [({"rule": "typical"}, "typical"), ({"rule": None}, "greedy"), ({}, "greedy")]
)
def test_a_question_is_answered_by_the_rule_that_it_names(asked, answered, monkeypatch):
    used = []

    class Answering:
        def __init__(self, *arguments):
            used.append(arguments[-1].options.rule)
            raise wrong(None, "enough is known")

    monkeypatch.setattr("client.endpoint.page.LiveAnswer", Answering)
    messages = [{"role": "user", "content": "Hello?"}]
    answer = client_of().post("/page/answer", json={"model": "outrider", "messages": messages, **asked})
    assert answer.json()["error"]["message"] == "enough is known"
    assert used == [answered]
