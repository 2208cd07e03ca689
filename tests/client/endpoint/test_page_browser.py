"""The page in a real browser, on the demo's models behind its link: asked, cut, restored, and stopped by keys.

With OUTRIDER_RECORDINGS=DIR the pictures of the documentation are taken again.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse

import pytest

pytest.importorskip("playwright", reason="no playwright here: make install")

from playwright.sync_api import Page, Route, expect

from tests.client.endpoint.browser import (
    PATIENCE_MS,
    ask,
    demo_page,
    is_done,
    link_is,
    longer_than,
    needs_chromium,
    opened,
    picture,
    text_of,
)

pytestmark = needs_chromium

LONG = "Tell me a story about a fox and a lantern."
MAX_TOKENS = 600
"""Of an answer that need not end by itself: long enough to cut the link in the middle of it."""
SHORT = "Hi! What is a shadow? Answer in one sentence."


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo_page() as found:
        yield found


@pytest.fixture(autouse=True)
def _the_link_is_left_restored(url) -> Iterator[None]:
    """The next test finds it so, however this one ends."""
    yield
    post(url, "page/link", {"cut": False}).close()


@pytest.fixture
def page(browser, url) -> Iterator[Page]:
    viewport = {"width": 900, "height": 760}
    with browser.new_context(viewport=viewport) as context, opened(context, url) as page:
        yield page


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
        time.sleep(0.05)


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
    expect(page.locator("#said")).to_have_text(f"The answer is there, {len(expected.split())} words.")
    expect(page.locator(".about")).to_contain_text("the link was lost meanwhile")

    if expected.startswith(alone):
        return  # the draft was right, and nothing was taken back
    taken_back = page.get_by_role("button", name="What was taken back")
    taken_back.click()
    expect(taken_back).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".text del").first).to_be_visible()
    page.locator(".text del").first.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
    picture(page, "reconciled")
    assert text_of(page, " .confirmed") == expected
    taken_back.click()
    expect(taken_back).to_have_attribute("aria-pressed", "false")
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
