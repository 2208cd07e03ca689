"""Figures that are links to kept results are those of the results, in every document that has such links."""

import re
from pathlib import Path

import pytest

from netem.experiments.figures import figures

DOCS = Path(__file__).parents[2] / "docs"

LEAST = {
    "paper.md": 100,
    "drafts.md": 50,
    "scaling.md": 25,
    "links.md": 25,
    "fleet.md": 10,
    "serve.md": 5,
    "operating.md": 1,
    "benchmarks/README.md": 150,
}
"""How many each document has at least."""

_DEFINITION = re.compile(r'^\[[^\[\]]+\]: \S+\.json "', re.MULTILINE)
_REFERENCE = re.compile(r"\]\[(?P<label>[^\[\]]+)\]")
_CODE = re.compile(r"`[^`]*`")


def test_every_document_with_such_links_is_known():
    pages = (page for page in DOCS.rglob("*.md") if page.name != "table.md")
    assert {
        page.relative_to(DOCS).as_posix() for page in pages if _DEFINITION.search(page.read_text(encoding="utf-8"))
    } == set(LEAST)


@pytest.mark.parametrize("document", LEAST)
def test_every_figure_is_that_of_the_results(document):
    page = DOCS / document
    text = page.read_text(encoding="utf-8")
    found = figures(text, page.parent)
    assert [figure for figure in found if figure.text != figure.expected] == [], (
        f"run outrider-lab figures docs/{document}, and read the words around what changes"
    )
    assert len(found) >= LEAST[document]
    assert {match["label"] for match in _REFERENCE.finditer(_CODE.sub("", text))} == {figure.label for figure in found}
