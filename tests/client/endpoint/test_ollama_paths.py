"""Ollama's paths without a server: what a client reads, line by line."""

import json
from types import SimpleNamespace
from typing import Any

from starlette.testclient import TestClient

from client.endpoint.access_checks import access_rules_for
from client.endpoint.answer_parsers.pieces import TextPiece
from client.endpoint.app import make_app
from client.endpoint.ollama_paths import OllamaPaths
from client.endpoint.openai_responses import FinishedAnswer
from client.private.spans import SplitPrompt
from common.protocol.sampling import Sampling

MESSAGES = [{"role": "user", "content": "Hi"}]


class Service:
    """Answers everything with one text."""

    def __init__(self, text: str):
        self._piece = TextPiece(text)

    def choices(self, request):
        return [SimpleNamespace(prompt=SplitPrompt((1, 2)))]

    async def answer(self, choice, emit):
        emit(self._piece)
        return FinishedAnswer((self._piece,), "stop", 3)


def asked(path: str, body: dict[str, Any], text: str = "Yes") -> Any:
    models = SimpleNamespace(find=lambda _: Service(text))
    app = make_app(OllamaPaths(models, Sampling(seed=0)).routes(), access_rules_for("127.0.0.1", None))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        return client.post(path, json={"model": "m", **body})


def test_an_object_is_one_line_however_a_client_splits_lines():
    text = "a\u2028b\u2029c\x85d\ne"
    answer = asked("/api/chat", {"messages": MESSAGES}, text)
    said, end = map(json.loads, answer.text.splitlines())
    assert (said["message"]["content"], end["done"]) == (text, True)
