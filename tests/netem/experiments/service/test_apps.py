"""How an app judges what an endpoint says: right, wrong, or not at all."""

import asyncio
import json
import math
from collections import Counter
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from netem.experiments.service.apps import DIFFERENT, FAILED, IDENTICAL, LEFT, AppRequest, Apps, run_apps

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
        asking = asyncio.create_task(run_apps(apps, 2, math.inf, seed=1))
        while apps.verdicts.total() < answers:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
    return apps


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
