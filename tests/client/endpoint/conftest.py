"""One browser and one scripted page for the tests of a file: while a browser is open, its event loop runs, and no other
may begin. Each test has a profile and a page of its own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.client.endpoint.scripted_page import ScriptedPage


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from tests.client.endpoint.browser import chromium  # which needs playwright

    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def scripted() -> "Iterator[ScriptedPage]":
    from tests.client.endpoint.page_scripts import SCRIPTS  # which is of no use to the other tests
    from tests.client.endpoint.scripted_page import scripted_page

    with scripted_page(SCRIPTS) as found:
        yield found


@pytest.fixture
def context(browser: "Browser") -> "Iterator[BrowserContext]":
    with browser.new_context(viewport={"width": 1440, "height": 760}) as found:
        yield found


@pytest.fixture
def page(context: "BrowserContext", scripted: "ScriptedPage") -> "Iterator[Page]":
    from tests.client.endpoint.browser import opened

    with opened(context, scripted.url) as found:
        yield found
