"""How an app judges what an endpoint says: right, wrong, or not at all."""

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from netem.experiments.service import apps as apps_module
from netem.experiments.service.apps import DIFFERENT, FAILED, IDENTICAL, LEFT, AppRequest, Apps, asking

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
TEXT = "one two three four"


def chunk(text: str) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n"


async def answer(request):
    """As it is asked: `user` says how."""
    asked = await request.json()
    if asked.get("user") == "busy at first" and request.headers["x-stainless-retry-count"] == "0":
        return JSONResponse({"error": {"message": "busy"}}, 503, {"retry-after-ms": "1"})
    if asked.get("user") == "refuse":
        return JSONResponse({"error": {"message": "no"}}, 400)
    sent = [] if asked.get("user") == "end at once" else TEXT.split(" ")
    if not asked.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        return JSONResponse({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
    if asked.get("user") == "end badly":
        return StreamingResponse(iter(["data: {\n\n"]), media_type="text/event-stream")

    async def words():
        for word in sent:
            yield chunk(word if word == "one" else f" {word}")
        yield "data: [DONE]\n\n"

    return StreamingResponse(words(), media_type="text/event-stream")


@asynccontextmanager
async def endpoint():
    app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    yield f"{host}:{port}"
    server.should_exit = True
    await serving


async def judged(question: AppRequest, answers: int = 40) -> Apps:
    async with endpoint() as address:
        apps = Apps(address, [question])
        async with asking(apps, 2, seed=1):
            while apps.verdicts.total() < answers:
                await asyncio.sleep(0.01)
    return apps


async def test_a_request_that_hangs_has_failed_once_nobody_asks(monkeypatch):
    monkeypatch.setattr(apps_module, "PATIENCE_S", 0.2)

    async def hang(*_):
        await asyncio.sleep(60)

    async with asyncio.timeout(10), await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        apps = Apps(f"{host}:{port}", [AppRequest(BODY, TEXT)])
        async with asking(apps, 2, seed=1):
            await asyncio.sleep(0.1)
        assert apps.verdicts == Counter({FAILED: 2})
        assert apps.troubles == ["a request was not answered within 0.2 s"] * 2


async def test_a_request_under_way_is_answered_when_nobody_asks_any_more(monkeypatch):
    begun = asyncio.Event()

    async def slow(self, client, request, dice):
        begun.set()
        await asyncio.sleep(0.05)
        self.judged(IDENTICAL)

    monkeypatch.setattr(Apps, "_ask", slow)
    apps = Apps("127.0.0.1:1", [AppRequest(BODY, TEXT)])
    async with asking(apps, 1, seed=1):
        await begun.wait()
    assert apps.verdicts == Counter({IDENTICAL: 1})


async def test_the_right_text_is_identical_and_its_beginning_is_left():
    apps = await judged(AppRequest(BODY, TEXT))
    assert set(apps.verdicts) == {IDENTICAL, LEFT}
    assert not apps.troubles
    assert apps.first_seconds


async def test_apps_ask_past_a_proxy_of_the_environment(unreachable_proxy):
    assert not (await judged(AppRequest(BODY, TEXT), answers=3)).troubles


async def test_another_text_is_different_even_where_it_was_left():
    apps = await judged(AppRequest(BODY, "something else"))
    assert set(apps.verdicts) == {DIFFERENT}
    assert apps.verdicts == Counter({DIFFERENT: len(apps.troubles)})


async def test_an_answer_that_ends_too_early_was_not_left_by_its_app():
    apps = await judged(AppRequest({**BODY, "user": "end at once"}, TEXT))
    assert set(apps.verdicts) == {IDENTICAL, DIFFERENT}, "identical where it is not streamed"


async def test_what_is_refused_has_failed():
    apps = await judged(AppRequest({**BODY, "user": "refuse"}, TEXT))
    assert set(apps.verdicts) == {FAILED}
    assert "BadRequestError" in apps.troubles[0]


async def test_an_app_that_cannot_read_its_answer_asks_on_and_has_failed():
    async with asyncio.timeout(10):
        apps = await judged(AppRequest({**BODY, "user": "end badly"}, TEXT))
    assert set(apps.verdicts) == {IDENTICAL, FAILED}, "identical where it is not streamed"


async def test_requests_that_are_sent_again_are_counted_and_told():
    busy = await judged(AppRequest({**BODY, "user": "busy at first"}, TEXT), answers=10)
    assert set(busy.verdicts) <= {IDENTICAL, LEFT}
    assert busy.verdicts.total() <= busy.repeated <= busy.verdicts.total() + 2
    assert f"which it did {busy.repeated} times" in busy.repeats
    assert (await judged(AppRequest(BODY, TEXT), answers=3)).repeated == 0
