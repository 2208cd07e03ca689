"""Who can use the page: axe's rules at three widths, a low window, a phone, and the API key."""

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="no playwright here: make install")

from playwright.sync_api import Page, Route, expect

from tests.client.endpoint.axe import violations
from tests.client.endpoint.browser import ask, is_done, link_is, needs_chromium, opened, picture, press, text_of
from tests.client.endpoint.page_scripts import MARKDOWN

pytestmark = needs_chromium

PHONE = {"width": 390, "height": 844}
WIDTHS = (320, 768, 1440)

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


def all_is_within(page: Page) -> None:
    within, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert within <= width


def at_each_width(page: Page) -> Iterator[int]:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 760})
        page.emulate_media(color_scheme="dark" if width == 768 else "light")
        yield width


def is_usable(page: Page) -> None:
    assert violations(page) == []
    all_is_within(page)


def lines_in_sight(page: Page) -> float:
    """Of the answer, with its middle in the middle of the window."""
    return page.evaluate("""() => {
      const text = document.querySelector(".text");
      text.scrollIntoView({ block: "center" });
      const rows = Array.from({ length: innerHeight }, (_, y) => document.elementFromPoint(innerWidth / 2, y));
      return rows.filter((one) => one?.closest("main")).length / parseFloat(getComputedStyle(text).lineHeight);
    }""")


def test_nobody_is_kept_from_using_it(context, page, scripted):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    for _ in at_each_width(page):
        is_usable(page)
    press(page, "Drafting")
    ask(page, "Show me Markdown.")
    text = page.locator(".text")
    expect(text.locator("pre.loose .provisional").first).to_be_visible()
    expect(text.locator("strong")).to_have_text("**light**", use_inner_text=False)
    expect(text.locator(".keyword")).to_have_count(0)
    scripted.go_on()
    is_done(page)
    markdown_is_set(page)
    ask(page, "Tell me a story.")
    expect(text.last).to_contain_text("never came back")
    for width in at_each_width(page):
        is_usable(page)
        picture(page, f"{width}-drafting")
    for size in ({"width": 320, "height": 256}, {"width": 568, "height": 320}, {"width": 320, "height": 568}):
        page.set_viewport_size(size)
        assert lines_in_sight(page) >= 4, size
    for _ in range(2):
        scripted.go_on()
    is_done(page, 2)
    page.set_viewport_size({"width": 1440, "height": 760})
    press(page, "What was taken back")
    press(page, "Close")
    press(page, "Settings")
    page.get_by_label("Seed").fill("x")
    page.keyboard.press("Enter")
    expect(page.locator("#fault-seed")).to_be_visible()
    for width in at_each_width(page):
        is_usable(page)
        picture(page, f"{width}-settings")
    page.keyboard.press("Escape")
    for width in at_each_width(page):
        if width < 1440:
            press(page, "Conversations")
        else:
            expect(page.get_by_role("button", name="Conversations")).to_be_hidden()
        expect(page.get_by_role("navigation", name="Conversations")).to_be_visible()
        is_usable(page)
        picture(page, f"{width}-conversations")
        if width < 1440:
            page.keyboard.press("Escape")


def markdown_is_set(page: Page) -> None:
    text = page.locator(".text")
    assert text_of(page) == text_of(page, " .confirmed") == MARKDOWN
    assert text.locator("pre.loose").count() == 0
    assert text.locator(".keyword").all_inner_texts() == ["def", "return"]
    assert text.locator("strong").inner_text() == "light", "marks are there and not shown"
    assert [text.locator(tag).count() for tag in ("h3", "h4", "ol > li", "ul > li", "td", "blockquote", "b")] == [
        *(1, 1, 2, 2, 4, 1),
        0,  # what looks like HTML is text
    ]
    link = text.get_by_role("link", name="its page")
    expect(link).to_have_attribute("href", "https://en.wikipedia.org/wiki/Shadow")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    press(page, "Copy the python code")
    expect(page.locator("#news")).to_have_text("Copied")
    code = MARKDOWN.partition("```python\n")[2].partition("```")[0]
    assert page.evaluate("navigator.clipboard.readText()") == code
    press(page, "Copy")
    page.wait_for_function("async (text) => (await navigator.clipboard.readText()) === text", arg=MARKDOWN)


def test_it_is_read_on_a_phone(browser, scripted):
    phone = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    with browser.new_context(**phone) as context, opened(context, scripted.url) as page:
        page.get_by_role("button", name="Hi! What is a shadow?").tap()
        is_done(page)
        all_is_within(page)
        assert page.evaluate("innerWidth") == PHONE["width"]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for what in ("h2", ".confirmed", ".provisional", "del", ".about", "dt", "#state", "#cut", "#send", "small"):
                assert page.locator(f"{what}:visible").first.evaluate(CONTRAST) >= 4.5, what
            ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert (int(re.findall(r"\d+", ground)[0]) < 128) is (scheme == "dark")
        for what, line in ((".provisional", "underline"), ("del", "line-through")):
            shown = page.locator(f".legend {what}").evaluate("(one) => getComputedStyle(one).textDecorationLine")
            assert shown == line, "colour alone tells nothing apart"
        page.get_by_role("button", name="Conversations").tap()
        expect(page.get_by_role("button", name=re.compile("^Delete: "))).to_be_visible()
        page.touchscreen.tap(PHONE["width"] - 5, PHONE["height"] / 2)  # beside it
        expect(page.get_by_role("navigation", name="Conversations")).to_be_hidden()


def test_the_key_is_asked_for_once(context, scripted):
    page, refused = context.new_page(), []

    def gate(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=401, json={"error": {"message": "the API key is missing or wrong"}})

    page.route("**/page/*", gate)
    page.goto(scripted.url)
    for key in ("wrong", "secret"):
        expect(page.locator("#key")).to_be_focused()
        for _ in range(3):
            page.keyboard.press("Escape")  # which browsers let a page hold back only once
            expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(key)
        page.keyboard.press("Enter")
    link_is(page, "online")
    expect(page.locator("#lock")).to_be_hidden()
    assert len(refused) == 2
