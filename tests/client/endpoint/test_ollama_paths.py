"""Ollama's paths without a server: what a client reads, line by line."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from client.endpoint.access_checks import access_rules_for
from client.endpoint.answer_parsers.pieces import TextPiece
from client.endpoint.app import make_app
from client.endpoint.faults import Fault, FaultError
from client.endpoint.ollama_paths import OllamaPaths
from client.endpoint.openai_responses import FinishedAnswer
from client.endpoint.served_models import ServedModels
from client.private.spans import SplitPrompt
from common.protocol.sampling import Sampling

MESSAGES = [{"role": "user", "content": "Hi"}]
DIGEST = "0123456789abcdef" * 4


class Service:
    """Answers everything with one text, and counts what it is asked."""

    def __init__(self, text: str, unheeded: tuple[str, ...] = ()):
        self._piece = TextPiece(text)
        self.unheeded = unheeded
        self.asked = 0

    def find(self, model: str) -> "Service":
        """As `ServedModels` does."""
        if model != "m":
            raise FaultError(Fault(404, f"the model '{model}' is not served here"))
        return self

    def choices(self, request):
        self.asked += 1
        return [SimpleNamespace(prompt=SplitPrompt((1, 2)), unheeded=self.unheeded)]

    async def answer(self, choice, emit):
        emit(self._piece)
        return FinishedAnswer((self._piece,), "stop", 3)


def asked(models: Any, path: str, body: Any = None) -> Any:
    app = make_app(OllamaPaths(models, Sampling(seed=0)).routes(), access_rules_for("127.0.0.1", None))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        return client.get(path) if body is None else client.post(path, json=body)


def served() -> ServedModels:
    target = SimpleNamespace(
        model="big-7b",
        context=4096,
        digest=DIGEST,
        family="qwen3",
        template="{{ messages }}",
        capabilities=lambda: ["completion", "tools"],
    )
    return ServedModels([target])


def test_an_object_is_one_line_however_a_client_splits_lines():
    text = "a\u2028b\u2029c\x85d\ne"
    answer = asked(Service(text), "/api/chat", {"model": "m", "messages": MESSAGES})
    said, end = map(json.loads, answer.text.splitlines())
    assert (said["message"]["content"], end["done"]) == (text, True)


@pytest.mark.parametrize("stream", [True, False])
def test_what_has_no_effect_is_named(stream):
    asking = {"model": "m", "messages": MESSAGES, "stream": stream}
    answer = asked(Service("Yes", ("tools[0].function.strict",)), "/api/chat", asking)
    assert "tools[0].function.strict" in answer.headers["warning"]
    assert "warning" not in asked(Service("Yes"), "/api/chat", asking).headers


@pytest.mark.parametrize(
    ("path", "body", "empty"),
    [
        ("/api/generate", {}, {"response": ""}),
        ("/api/generate", {"prompt": "", "stream": False, "system": "Be brief."}, {"response": ""}),
        ("/api/generate", {"prompt": "", "raw": True}, {"response": ""}),
        ("/api/chat", {}, {"message": {"role": "assistant", "content": ""}}),
        ("/api/chat", {"messages": [], "stream": False}, {"message": {"role": "assistant", "content": ""}}),
    ],
)
@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        ({}, "load"),
        ({"keep_alive": "10m"}, "load"),
        ({"keep_alive": -1}, "load"),
        ({"keep_alive": 0}, "unload"),
        ({"keep_alive": "0"}, "unload"),
        ({"keep_alive": "0s"}, "unload"),
    ],
)
def test_a_request_without_text_loads_the_model_and_asks_nothing(path, body, empty, kept, reason):
    service = Service("Yes")
    answer = asked(service, path, {"model": "m:latest", **body, **kept})
    said = answer.json()
    assert said.pop("created_at").endswith("Z")
    assert (answer.status_code, said) == (200, {"model": "m", "done": True, "done_reason": reason, **empty})
    assert service.asked == 0


@pytest.mark.parametrize(
    ("body", "status"), [({}, 400), ({"model": 3}, 400), ({"model": "other"}, 404), ([], 400), ({"messages": 0}, 400)]
)
def test_a_model_that_cannot_be_loaded_is_told(body, status):
    service = Service("Yes")
    answer = asked(service, "/api/chat", body)
    assert (answer.status_code, service.asked) == (status, 0)


@pytest.mark.parametrize(
    ("path", "body"), [("/api/generate", {"prompt": " ", "keep_alive": 0}), ("/api/chat", {"messages": MESSAGES})]
)
def test_a_request_with_text_is_answered(path, body):
    service = Service("Yes")
    assert asked(service, path, {"model": "m", "stream": False, **body}).json()["done_reason"] == "stop"
    assert service.asked == 1


@pytest.mark.parametrize("path", ["/api/tags", "/api/ps"])
def test_all_models_are_there_and_loaded_by_all_their_names(path):
    told = asked(served(), path).json()["models"]
    assert [(each["model"], each["digest"], each["details"]["family"]) for each in told] == [
        ("big-7b", DIGEST, "qwen3"),
        ("outrider", DIGEST, "qwen3"),
    ]


@pytest.mark.parametrize("body", [{"model": "big-7b"}, {"model": "outrider:latest"}, {"model": "", "name": "outrider"}])
def test_a_model_is_shown_by_any_of_its_names(body):
    told = asked(served(), "/api/show", body).json()
    assert told["model_info"]["qwen3.context_length"] == 4096
    assert (told["template"], told["capabilities"]) == ("{{ messages }}", ["completion", "tools"])


@pytest.mark.parametrize(("body", "status"), [({"model": "other"}, 404), ({}, 400), ({"name": 3}, 400)])
def test_a_model_that_cannot_be_shown_is_told(body, status):
    answer = asked(served(), "/api/show", body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_the_version_is_that_of_the_api_so_that_no_app_refuses_it_as_too_old():
    version = asked(served(), "/api/version").json()["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4], "the least that VS Code takes"


def test_a_path_of_ollamas_that_is_not_here_is_told_with_those_that_are():
    answer = asked(served(), "/api/pull", {})
    message = "there is no /api/pull here; chat, generate, tags, ps, show and version are, all below /api"
    assert (answer.status_code, answer.json()) == (404, {"error": message})
