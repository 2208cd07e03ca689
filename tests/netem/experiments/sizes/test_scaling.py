import json
from functools import cache
from pathlib import Path

from netem.experiments.sizes import scaling
from netem.experiments.sizes.rows import Row, in_words, ratios

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "scaling.md"


@cache
def rows() -> list[Row]:
    kept = json.loads((DOCS / "benchmarks" / "sizes" / "results.json").read_text(encoding="utf-8"))["results"]["rows"]
    return [scaling.by_present_formulas(Row(**row)) for row in kept]


@cache
def tables() -> tuple[str, ...]:
    """Of the page, computed anew."""
    return (
        scaling.sizes_table(rows()),
        scaling.parameters_table(),
        scaling.state_table(),
        scaling.training_table(),
        scaling.pipeline_table(),
    )


def refreshed(page: str) -> str:
    """The text of the page with its tables, which are found by their headings, computed anew."""
    lines = page.splitlines()
    for table in tables():
        fresh = table.splitlines()
        start = lines.index(fresh[0])
        end = next((at for at in range(start, len(lines)) if not lines[at].startswith("|")), len(lines))
        lines[start:end] = fresh
    return "\n".join(lines) + "\n"


def test_the_page_says_what_is_computed():
    page = PAGE.read_text(encoding="utf-8")
    assert page == refreshed(page), "write refreshed(page) to docs/scaling.md, and read its text again"


def test_a_stale_number_is_found():
    page = PAGE.read_text(encoding="utf-8")
    stale = page.replace("251.7", "251.8")
    assert stale != page, "name another number of its tables"
    assert refreshed(stale) == page


def test_the_page_says_how_far_the_formulas_are_from_what_was_measured():
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for side, values in ratios(rows()).items():
        assert f"{side} {in_words(values)}" in page


def test_the_page_states_what_it_assumes():
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{scaling.CONTEXT:,} tokens" in page
    assert f"{scaling.TOKENS_PER_SECOND} committed tokens a second" in page
    assert f"{scaling.EPOCH_TOKENS / 1e6:g} M tokens" in page
    assert f"{scaling.UTILISATION:.0%} of {scaling.PEAK_FLOPS / 1e12:g} TFLOP/s" in page
