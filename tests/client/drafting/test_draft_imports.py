"""client.drafting.draft_imports: the event loop keeps running, and no import can keep a client from starting."""

import asyncio
import gc
import threading

import pytest

from client.drafting import draft_imports
from client.drafting.draft_imports import begin_imports
from common.drafters.load import import_kind


async def test_the_loop_goes_on_until_everything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, asked = threading.Event(), []

    def slow(kind: str) -> None:
        asked.append((kind, gc.isenabled()))
        may_end.wait(10)

    monkeypatch.setattr(draft_imports, "import_kind", slow)
    done = begin_imports("moa")
    await asyncio.sleep(0.05)
    assert not done.done()
    may_end.set()
    await asyncio.wait_for(done, 10)
    assert asked == [("moa", False)]
    assert gc.isenabled()


async def test_what_cannot_be_imported_is_left_to_who_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> None:
        raise ImportError(kind)

    monkeypatch.setattr(draft_imports, "import_kind", fail)
    await asyncio.wait_for(begin_imports("moa"), 10)
    assert gc.isenabled()


def test_nobody_needs_to_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(draft_imports, "import_kind", lambda kind: may_end.wait(10))

    async def leave() -> None:
        begin_imports("moa")

    asyncio.run(leave())  # ends while the import goes on
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "imports":
            thread.join(10)


@pytest.mark.parametrize("kind", ["moa", "eagle", "medusa", "independent", "lookup", "unheard of"])
def test_every_kind_can_be_imported(kind: str) -> None:
    import_kind(kind)
