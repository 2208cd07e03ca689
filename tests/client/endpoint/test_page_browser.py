"""The page in a real browser, on the demo's models behind its link: asked, cut, restored, and read on a phone.

With OUTRIDER_RECORDINGS=DIR the pictures of the documentation are taken again.
"""

import json
import os
import re
import time
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="no playwright here: make install")

from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.client.endpoint.browser import chromium, demo_page, needs_chromium

pytestmark = needs_chromium

PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)
LONG = "Tell me a story about a fox and a lantern."
MAX_TOKENS = 600
"""Of an answer that need not end by itself: long enough to cut the link in the middle of it."""
SHORT = "Hi! What is a shadow? Answer in one sentence."
PHONE = {"width": 390, "height": 844}

KEEP_RECORD = """
window.changed = [];
const seen = [];
new MutationObserver(() => {
  document.querySelectorAll("article").forEach((article, index) => {
    const confirmed = [...article.querySelectorAll(".confirmed")].map((run) => run.textContent).join("");
    if (!confirmed.startsWith(seen[index] ?? "")) window.changed.push([seen[index], confirmed]);
    seen[index] = confirmed;
  });
}).observe(document, { subtree: true, childList: true, characterData: true });
"""
"""Notes where text that was shown as confirmed does not stay."""

CONTRAST = """(element) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let ground = element;
  while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
  const both = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(light);
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}"""
"""Of an element's text with what is behind it, as WCAG has it."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_page() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def context(browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 900, "height": 760}, device_scale_factor=2) as found:
        yield found


@pytest.fixture(autouse=True)
def _the_link_is_left_restored(url) -> Iterator[None]:
    """The next test finds it so, however this one ends."""
    yield
    post(url, "page/link", {"cut": False}).close()


@pytest.fixture
def page(context, url) -> Iterator[Page]:
    yield from opened(context, url)


def opened(context: BrowserContext, url: str) -> Iterator[Page]:
    page, complaints = context.new_page(), []
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(KEEP_RECORD)
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


def post(url: str, path: str, body: dict[str, object]) -> HTTPResponse:
    headers = {"Content-Type": "application/json"}
    return urllib.request.urlopen(
        urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), headers), timeout=120
    )


def limit_answers(page: Page) -> None:
    """The page itself sets no limit."""

    def limit(route: Route) -> None:
        route.continue_(post_data=json.dumps({**route.request.post_data_json, "max_tokens": MAX_TOKENS}))

    page.route("**/page/answer", limit)


def answer_of_the_target(url: str, question: str) -> str:
    """Over a link that holds."""
    messages = [{"role": "user", "content": question}]
    body = {"model": "outrider", "messages": messages, "max_tokens": MAX_TOKENS}
    with post(url, "v1/chat/completions", body) as answer:
        whole = json.load(answer)
    assert whole["outrider"]["offline"] is False
    return whole["choices"][0]["message"]["content"]


def nobody_is_answered(url: str) -> None:
    """Soon."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while True:
        with urllib.request.urlopen(f"{url}health", timeout=30) as health:
            if json.load(health)["answering"] == 0:
                return
        assert time.monotonic() < until


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("OUTRIDER_RECORDINGS")
    if folder:
        page.screenshot(path=Path(folder) / f"page-{name}.png")


def test_a_link_that_is_cut_changes_nothing_in_the_answer(page, url):
    limit_answers(page)
    ask(page, LONG)
    expect(page.locator(".text .confirmed").first).to_be_visible()
    expect(page.locator(".text .provisional").first).to_be_visible()
    expect(page.locator(".text")).to_have_text(longer_than(100))
    picture(page, "online")
    shown = text_of(page)
    page.get_by_role("button", name="Cut the link").click()
    link_is(page, "offline")
    expect(page.locator(".plight")).to_contain_text("No link")
    confirmed, before = text_of(page, " .confirmed"), text_of(page)
    expect(page.locator(".text")).to_have_text(longer_than(len(shown)))
    expect(page.locator(".text .provisional").last).to_be_visible()
    picture(page, "offline")
    assert text_of(page, " .confirmed") == confirmed
    assert text_of(page).startswith(before)

    alone = text_of(page)
    page.get_by_role("button", name="Restore the link").click()
    link_is(page, "online")
    is_done(page)
    expected = answer_of_the_target(url, LONG)
    expect(page.locator(".text del")).to_have_count(0)
    assert text_of(page) == expected
    assert len(confirmed) < len(expected)
    expect(page.locator(".text .provisional")).to_have_count(0)
    expect(page.locator("#said")).to_have_text(expected)
    expect(page.locator(".about")).to_contain_text("the link was lost meanwhile")

    if expected.startswith(alone):
        return  # the draft was right, and nothing was taken back
    page.get_by_role("button", name="show what was taken back").click()
    expect(page.locator(".text del").first).to_be_visible()
    picture(page, "reconciled")
    assert text_of(page, " .confirmed") == expected
    page.get_by_role("button", name="hide what was taken back").click()
    assert text_of(page) == expected


def test_it_is_used_by_keyboard_alone(page, url):
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.type("Hi! What is a shadow?")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Answer in one sentence.")
    expect(page.locator("#question")).to_have_value(SHORT.replace("? ", "?\n"))
    page.keyboard.press("Enter")
    is_done(page)
    expect(page.locator("#question")).to_be_focused()

    with page.expect_request("**/page/answer") as asked:
        ask(page, LONG)
    said = asked.value.post_data_json["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert said[1]["content"] == text_of(page, " .confirmed")
    expect(page.locator("article").nth(1).locator(".confirmed").first).to_be_visible()
    page.keyboard.press("Escape")
    is_done(page, 2)
    expect(page.locator(".about").nth(1)).to_have_text("Stopped.")
    expect(page.locator(".text .provisional")).to_have_count(0)
    nobody_is_answered(url)

    for _ in range(10):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.id") == "cut":
            break
    cut = page.locator("#cut")
    expect(cut).to_be_focused()
    expect(cut).to_have_css("outline-style", "solid")
    page.keyboard.press("Space")
    expect(cut).to_have_text("Restore the link")
    link_is(page, "offline")
    page.keyboard.press("Space")
    expect(cut).to_have_text("Cut the link")
    link_is(page, "online")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_on_a_phone(browser, url, scheme):
    with browser.new_context(viewport=PHONE, color_scheme=scheme, is_mobile=True, has_touch=True) as context:
        for page in opened(context, url):
            page.get_by_role("button", name=SHORT).tap()
            is_done(page)
            width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert width[0] <= width[1] == PHONE["width"]
            for what in ("h2", ".confirmed", ".provisional", "del", ".about", "dt", "#state", "#cut", "#send", "small"):
                assert page.locator(f"{what}:visible").first.evaluate(CONTRAST) >= 4.5, what
            ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert (int(re.findall(r"\d+", ground)[0]) < 128) is (scheme == "dark")
            for what, line in ((".provisional", "underline"), ("del", "line-through")):
                shown = page.locator(f".legend {what}").evaluate("(one) => getComputedStyle(one).textDecorationLine")
                assert shown == line, "colour alone tells nothing apart"


def test_the_key_is_asked_for_once(context, url):
    page, refused = context.new_page(), []

    def gate(route):
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=401, json={"error": {"message": "the API key is missing or wrong"}})

    page.route("**/page/*", gate)
    page.goto(url)
    for key in ("wrong", "secret"):
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(key)
        page.keyboard.press("Enter")
    link_is(page, "online")
    expect(page.locator("#lock")).to_be_hidden()
    assert len(refused) == 2
    page.reload()
    link_is(page, "online")
    assert len(refused) == 2
