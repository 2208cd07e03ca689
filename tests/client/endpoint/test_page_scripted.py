"""The page in a real browser, with answers by a script: what it shows, keeps and lets a person do."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

pytest.importorskip("playwright", reason="no playwright here: make install")

from playwright.sync_api import Locator, Page, expect

from tests.client.endpoint.browser import ask, is_done, link_is, needs_chromium, opened, press, text_of

pytestmark = needs_chromium


def article(page: Page, index: int) -> Locator:
    return page.locator("article").nth(index)


def asked_by(page: Page, action: Callable[[], None]) -> dict:
    with page.expect_request("**/page/answer") as request:
        action()
    return request.value.post_data_json


def test_text_is_struck_where_it_took_another_way(context, scripted):
    context.clock.install()
    with opened(context, scripted.url) as page:
        opening = page.get_by_role("button", name="Drafting")
        expect(opening).to_have_attribute("aria-expanded", "false")
        opening.press("Enter")
        expect(opening).to_have_attribute("aria-expanded", "true")
        ask(page, "Tell me a story.")
        rows = page.locator("#drafted .path")
        expect(rows).to_have_text(["who ran away from home and never came back"])
        expect(page.locator(".text")).to_contain_text("never came back")
        expect(page.locator(".plight")).to_contain_text("No link")
        expect(page.locator("#news")).to_have_text("The link is gone.")
        context.clock.pause_at(datetime.now() + timedelta(days=1))  # what is struck is shown for two seconds
        scripted.go_on()
        struck = page.locator(".text del")
        expect(struck).to_have_text("ran away from home and never came back")
        runs = struck.locator("xpath=..").locator("> *").evaluate_all("(found) => found.map((one) => one.textContent)")
        before, after = runs[: runs.index(struck.inner_text())], runs[runs.index(struck.inner_text()) + 1 :]
        assert "".join(before) == "Once upon a time there was a fox who "
        assert after == ["lived", " in a wood, all alone"]
        context.clock.fast_forward(2400)
        expect(struck).to_have_count(0)
        expect(rows).to_have_text(["in a wood, all alone", "there"])
        expect(page.locator("#drafted .likeliest")).to_have_count(1)
        expect(page.locator("#commits .was-drafted")).to_have_text(["who", "a fox"])
        expect(page.locator("#commits strong")).to_have_text(["lived", "Once upon a time there was"])
        summary = "10 tokens confirmed in 3 steps; 30% had been drafted here."
        expect(page.locator("#commits-summary")).to_have_text(summary)
        context.clock.resume()
        scripted.go_on()
        is_done(page)
        expect(rows).to_have_count(0)
        expect(page.locator("#drafted-none")).to_be_visible()
        press(page, "Close")
        expect(opening).to_be_focused()
        expect(page.locator("#tree")).to_be_hidden()
        assert text_of(page, " .confirmed") == "Once upon a time there was a fox who lived in a wood."
        taken_back = page.get_by_role("button", name="What was taken back")
        taken_back.click()
        expect(taken_back).to_have_attribute("aria-pressed", "true")
        expect(struck.first).to_have_text("ran away from home and never came back")


OF_A_SCREEN_READER = """
  - banner:
    - heading "Outrider" [level=1]
    - button "Drafting"
    - button "Settings"
    - region "The link to the server":
      - button "Cut the link"
  - navigation "Conversations":
    - button "New conversation"
    - list:
      - listitem:
        - button "Hello?"
        - 'button "Rename: Hello?"'
        - 'button "Delete: Hello?"'
  - main:
    - article:
      - heading "Hello?" [level=2]
      - paragraph: Hello.
      - button "Copy"
      - button "Ask again"
      - button "Edit question"
  - contentinfo:
    - textbox "Your question"
    - button "Ask"
  - status: The answer is there, 1 word.
"""


def test_conversations_are_kept_in_the_browser_alone(page):
    requests: list[str] = []
    page.on("request", lambda request: requests.append(f"{request.method} {request.url.rpartition('/')[2]}"))
    titles = page.locator("#list .title")
    ask(page, "Hello?")
    is_done(page)
    expect(page.locator("body")).to_match_aria_snapshot(OF_A_SCREEN_READER)
    press(page, "New conversation")
    expect(page.locator("article")).to_have_count(0)
    expect(page.locator("#question")).to_be_focused()
    ask(page, "And you?")
    is_done(page)
    expect(titles).to_have_text(["And you?", "Hello?"])
    expect(titles.nth(0)).to_have_attribute("aria-current", "true")

    press(page, "Hello?")
    expect(page.locator("article h2")).to_have_text("Hello?")
    assert text_of(page) == "Hello."
    asked = asked_by(page, lambda: ask(page, "And you?"))
    assert asked["messages"] == [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "And you?"},
    ]
    is_done(page, 2)
    page.locator("#list li").nth(0).hover()
    press(page, "Rename: Hello?")
    page.keyboard.type("Greetings")
    page.keyboard.press("Enter")
    expect(titles).to_have_text(["Greetings", "And you?"])
    expect(titles.nth(0)).to_be_focused()
    assert requests == ["POST answer"] * 3

    page.reload()
    link_is(page, "online")
    expect(titles).to_have_text(["Greetings", "And you?"])
    expect(page.locator("article h2")).to_have_text(["Hello?", "And you?"])
    page.locator("#list li").nth(0).hover()
    press(page, "Delete: Greetings")
    expect(titles).to_have_text(["And you?"])
    expect(page.locator("article")).to_have_count(0)
    page.keyboard.press("Enter")  # which is on Undo
    expect(titles).to_have_text(["Greetings", "And you?"])
    assert page.evaluate("Object.keys(localStorage).length") == 2

    press(page, "Greetings")
    again = page.get_by_role("button", name="Ask again").locator("visible=true")
    expect(again).to_have_count(1)
    asked = asked_by(page, again.click)
    assert [message["content"] for message in asked["messages"]] == ["Hello?", "Hello.", "And you?"]
    is_done(page, 2)

    press(article(page, 0), "Edit question")
    box = page.get_by_label("Edit the question")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(article(page, 0).get_by_role("button", name="Edit question")).to_be_focused()
    expect(page.locator("article h2")).to_have_text(["Hello?", "And you?"])
    page.keyboard.press("Enter")
    box.fill("And you?")
    asked = asked_by(page, lambda: page.keyboard.press("Enter"))
    assert [message["content"] for message in asked["messages"]] == ["And you?"]
    is_done(page)
    expect(page.locator("article")).to_have_count(1)
    assert text_of(page, " .confirmed") == "I as well."


def test_the_list_leaves_who_is_in_it_alone(context, page, scripted):
    ask(page, "Hello?")
    is_done(page)
    press(page, "New conversation")
    ask(page, "Tell me a story.")
    page.locator("#list li").nth(1).hover()
    press(page, "Rename: Hello?")
    page.keyboard.type("Greet")
    for _ in range(2):
        scripted.go_on()
    is_done(page)
    name = page.get_by_label("Name of the conversation")
    expect(name).to_be_focused()
    page.keyboard.type("ings")
    titles = page.locator("#list .title")
    page.locator("#question").click()
    expect(titles).to_have_text(["Tell me a story.", "Greetings"])
    expect(page.locator("#question")).to_be_focused()

    page.set_viewport_size({"width": 390, "height": 760})
    ask(page, "Tell me a story.")
    expect(page.locator(".text").last).to_contain_text("never came back")
    press(page, "Conversations")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('nav')")
    page.keyboard.press("Escape")
    expect(page.locator("#list-open")).to_be_focused()
    expect(page.locator("#send")).to_have_text("Stop")
    for _ in range(2):
        scripted.go_on()
    is_done(page, 2)


def test_settings_hold_for_what_is_asked(page):
    expect(page.locator("#settings-open")).to_have_text("Settings")
    press(page, "Settings")
    page.get_by_label("Temperature").fill("0.7")
    page.get_by_label("Seed").fill("x")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Seed")).to_be_focused()
    expect(page.get_by_label("Seed")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#fault-seed")).to_contain_text("The seed is a whole number")
    page.get_by_label("Seed").fill("12")
    expect(page.locator("#hint-rule")).to_contain_text("The same seed gives the same text.")
    page.get_by_label("Sampling").select_option(label="Loose")
    expect(page.locator("#hint-rule")).to_contain_text("not exactly the large model's own text")
    press(page, "Use these")
    for is_loaded_again in (False, True):
        if is_loaded_again:
            page.reload()
            link_is(page, "online")
        expect(page.get_by_role("button", name="Settings (changed)")).to_be_visible()
        asked = asked_by(page, lambda: ask(page, "Hello?"))
        assert {name: asked[name] for name in asked if name != "messages"} == {
            "model": "outrider",
            "temperature": 0.7,
            "seed": 12,
            "rule": "typical",
        }
        expect(page.locator("article[aria-busy=false] .about").last).to_contain_text("seed 12")
        expect(page.locator("article .about").last).to_contain_text("not exactly the large model's own text")
    press(page, "Settings (changed)")
    expect(page.get_by_label("Seed")).to_have_value("12")
    press(page, "Reset")
    press(page, "Use these")
    assert asked_by(page, lambda: ask(page, "Hello?")).keys() == {"model", "messages"}


def test_a_model_that_is_not_there_any_more_is_not_asked_for(context, scripted):
    context.add_init_script("""localStorage.setItem("settings", '{"model": "gone", "rule": "typical"}')""")
    with opened(context, scripted.url) as page:
        asked = asked_by(page, lambda: ask(page, "Hello?"))
        assert (asked["model"], asked["rule"]) == ("outrider", "typical")
        is_done(page)
        assert text_of(page) == "Hello."


def test_an_error_is_told_where_it_is_looked_at(context, scripted):
    page = context.new_page()  # which may complain of what is aborted
    page.goto(scripted.url)
    ask(page, "Fail.")
    is_done(page)
    expect(page.get_by_role("alert")).to_have_text("the server has no room left; ask again later")
    assert text_of(page, " .confirmed") == "This much"
    page.route("**/page/answer", lambda route: route.abort())
    press(page, "Ask again")
    expect(page.locator("#unkept")).to_have_text(
        "outrider cannot be reached any more on this machine. Start it again, then ask again."
    )
    is_done(page)
    assert text_of(page, " .confirmed") == "This much", "what was there is there again"
    page.reload()
    assert text_of(page, " .confirmed") == "This much"
    page.unroute("**/page/answer")
    press(page, "Edit question")
    page.get_by_label("Edit the question").fill("Hello?")
    press(page, "Ask this")
    expect(page.locator("article h2")).to_have_text("Hello?")
    is_done(page)
    expect(page.get_by_role("alert")).to_have_count(0)
    assert text_of(page) == "Hello."
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    ask(page, "Hello?")
    is_done(page, 2)
    expect(page.get_by_role("alert")).to_contain_text("This browser has no room to keep the conversation.")
    assert text_of(page, article=1) == "Hello."
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })")
    page.reload()
    link_is(page, "online")
    expect(page.get_by_role("alert")).to_contain_text("This browser lets the page keep nothing")


def test_what_is_thought_first_stands_apart_and_is_not_the_answer(context, scripted):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    with opened(context, scripted.url) as page:
        thought = page.locator("details.thought")
        ask(page, "Think first.")
        expect(thought).to_have_attribute("open", "")
        expect(thought.locator("p.confirmed")).to_have_text("First this.", use_inner_text=True)
        expect(thought).to_contain_text("Then that.")
        scripted.go_on()
        expect(thought).not_to_have_attribute("open", "")
        expect(page.locator(".text > p")).to_have_text("So it is not.")
        scripted.go_on()
        is_done(page)
        expect(page.locator(".text > p")).to_have_text("So it is.")
        expect(page.locator("#said")).to_have_text("The answer is there, 5 words.")
        expect(page.locator(".text h3")).to_have_count(2)
        thought_text, answer_text = "# Plan\n\nFirst *this*.\n\nThen that.", "## Answer\n\nSo it is."
        assert text_of(page) == f"\n<think>\n{thought_text}\n</think>\n\n{answer_text}", "to the letter"
        press(page, "Copy")
        assert page.evaluate("() => navigator.clipboard.readText()") == answer_text
        thought.get_by_label("Thoughts").click()
        expect(thought.get_by_text("Then that.")).to_be_visible()
        asked = asked_by(page, lambda: ask(page, "Hello?"))
        answer = {"role": "assistant", "content": answer_text, "reasoning_content": thought_text}
        assert asked["messages"][1] == answer
        is_done(page, 2)
        page.reload()
        expect(thought).not_to_have_attribute("open", "")
        expect(page.locator(".text > p").first).to_have_text("So it is.")
