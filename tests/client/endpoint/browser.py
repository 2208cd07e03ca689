"""A real headless Chromium, what tests do with the page in it, and `outrider demo --page` for it to look at."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.programs import Program

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

PATIENCE_MS = 120_000

RECORDINGS = os.environ.get("OUTRIDER_RECORDINGS")
"""The folder into which pictures for the documentation are taken, if any are."""

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",
    "--in-process-gpu",
)

_KEEP_RECORD = """
window.changed = [];
const seen = new WeakMap();
new MutationObserver(() => {
  for (const article of document.querySelectorAll("article")) {
    const confirmed = [...article.querySelectorAll(".confirmed")].map((run) => run.textContent).join("");
    const before = seen.get(article) ?? "";
    if (!confirmed.startsWith(before)) window.changed.push([before, confirmed]);
    seen.set(article, confirmed);
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""
"""Notes where text that was shown as confirmed does not stay."""


@contextmanager
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        yield browser
        browser.close()


@contextmanager
def opened(context: BrowserContext, url: str) -> Iterator[Page]:
    """The page, online. At the end nothing may have gone wrong in it."""
    page, complaints = context.new_page(), []
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(_KEEP_RECORD)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.goto(url)
    link_is(page, "online")
    yield page
    assert page.evaluate("window.changed") == []
    assert complaints == []


def link_is(page: Page, state: str) -> None:
    expect(page.locator("#state")).to_have_text(state)
    expect(page.locator("#link")).to_have_attribute("data-link", state)


def ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")


def press(where: Page | Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def is_done(page: Page, answers: int = 1) -> None:
    expect(page.locator("article[aria-busy=false]")).to_have_count(answers)


def longer_than(characters: int) -> re.Pattern[str]:
    return re.compile(f"^.{{{characters + 1},}}$", re.DOTALL)


def text_of(page: Page, kind: str = "", article: int = 0) -> str:
    return (
        page.locator("article")
        .nth(article)
        .locator(f".text{kind}")
        .evaluate_all("(found) => found.map((one) => one.textContent).join('')")
    )


def picture(page: Page, name: str) -> None:
    if RECORDINGS:
        page.screenshot(path=Path(RECORDINGS) / f"page-{name}.png")


@contextmanager
def demo_page() -> Iterator[str]:
    """Yields its URL; stops it as by Ctrl-C at the end, and it must exit cleanly."""
    process = Program("outrider", "demo", "--page", "--listen", "127.0.0.1:0", stdout=DEVNULL, stderr=PIPE)
    try:
        said = []
        for line in iter(process.stderr.readline, ""):
            said.append(line)
            if found := re.match(r"the page is at (\S+)", line):
                break
        else:
            raise AssertionError(f"the demo did not start: {said}")
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
