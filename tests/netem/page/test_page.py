"""The results page holds every figure of the results, and the one that is kept is made from those that are kept."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from netem.cli import page
from netem.commands.page import make_page
from netem.experiments.catalogue import EXPERIMENTS
from netem.experiments.experiment import Report
from netem.experiments.kept_results import read_results
from netem.experiments.table import read_table
from netem.page.page import GROUPS
from netem.page.vector import as_part
from tests.netem.page.kept import EXACT, PROVENANCE, REPORTS, ROLLING, keep_runs

BENCHMARKS = Path(__file__).parents[3] / "docs" / "benchmarks"


class Tables(HTMLParser):
    """Cells of all tables by row, headings first, each with what it is sorted by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self._in_cell = False
        self.feed(text)

    def texts(self) -> list[list[list[str]]]:
        return [[[text for text, _ in row] for row in table] for table in self.tables]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
            self._in_cell = False
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(("", dict(attrs).get("data-v")))
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("table", "th", "tr", "thead"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            text, key = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data.strip("\n"), key)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep_runs(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def made(kept: Path) -> str:
    return make_page(kept)


def plain(markdown: str) -> str:
    return markdown.replace("**", "").replace("`", "")


def test_every_cell_of_every_table_is_on_the_page(made: str) -> None:
    headings = [*EXACT.headings[:-1], "column 5"]  # its last is empty, which nobody could press
    expected = [
        [[plain(cell) for cell in row] for row in rows]
        for rows in ([ROLLING.headings, *ROLLING.rows], [headings, *EXACT.rows])
    ]
    assert sorted(Tables(made).texts()) == sorted(expected)


def test_cells_are_sorted_by_what_they_measure(made: str) -> None:
    (table,) = (table for table in Tables(made).tables if table[0][0][0] == "drafter")
    numbers = [[None if key is None else float(key) for _, key in row] for row in table[1:]]
    assert numbers == [
        [None, 1200.0, 0.9, 2.5, None],
        [None, 75.0, 1.5, 10.25, None],
        [None, 300.0, 0.02, None, None],
    ]


def test_where_a_run_comes_from_is_all_there(made: str) -> None:
    said = unescape(re.sub(r"<[^>]*>", "", made))
    for value in (
        PROVENANCE["commit"],
        "with uncommitted changes",
        "outrider-lab run rolling --out DIR",
        "98765 s",
        "Abacus 3000, 17 cores, load 0.25",
        "Linux 99.1, TCP cubic",
        "python 3.99.1, torch 9.8.7",
        "A small <target>, fingerprint fedcba987654",
        "2026-01-02T03:04:05+00:00",
    ):
        assert value in said
    assert said.count("Seed 41") == len(REPORTS)
    for name in REPORTS:
        assert f'href="{name}/results.json"' in made


def test_titles_remarks_and_faults_are_text_and_never_markup(made: str) -> None:
    assert "it rained &lt;cats&gt;" in made
    assert "not valid, for 2 reasons" in made
    assert "read <code>this</code> &amp; that" in made
    assert "and <b>this</b>" in made
    assert "Answers &amp; their twins" in made
    assert "none &lt; all" in made


def test_the_page_asks_nobody_for_anything(made: str) -> None:
    addresses = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\'\s)>]+)', made)
    assert addresses
    assert not [address for address in addresses if re.match(r"[a-z]+:|//", address)]
    assert "@import" not in made


def test_what_is_pointed_at_is_there_once(made: str) -> None:
    ids = re.findall(r' id="([^"]*)"', made)
    assert len(ids) == len(set(ids))
    pointed = re.findall(r'(?:href="#|url\(#|aria-describedby="|aria-labelledby=")([^")]+)', made)
    assert set(pointed) <= set(ids)


def test_a_drawing_keeps_every_word_and_number_and_takes_the_pages_colours(kept: Path) -> None:
    headline, document = read_results(kept / "exactness").as_svg()
    part = as_part(document, "exactness", headline.message)
    texts = [re.findall(r"<text[^>]*>([^<]*)</text>", drawing) for drawing in (document, part)]
    assert texts[0] == texts[1]
    assert "1,200" in texts[1]
    assert len(part) < 0.7 * len(document)
    assert "#1f2933" in document
    assert "#1f2933" not in part
    assert "currentColor" in part
    shapes = [re.findall(r'<path [^>]*d="([^"]*)"', drawing) for drawing in (document, part)]
    numbers = [[float(number) for path in paths for number in re.findall(r"-?\d+(?:\.\d+)?", path)] for paths in shapes]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.051)


def test_the_page_is_written_beside_the_runs(kept: Path, made: str, capsys: pytest.CaptureFixture[str]) -> None:
    page(kept)
    assert capsys.readouterr().out.strip() == str(kept / "index.html")
    assert (kept / "index.html").read_text() == made


@pytest.mark.parametrize(
    ("missing", "said"), [("table.md", "table.md cannot be read"), ("results.json", "holds no folder with a results")]
)
def test_an_incomplete_folder_is_told_in_a_sentence(tmp_path: Path, missing: str, said: str) -> None:
    keep_runs(tmp_path)
    for name in REPORTS:
        (tmp_path / name / missing).unlink()
    with pytest.raises(MisuseError, match=said):
        page(tmp_path)
    assert not (tmp_path / "index.html").exists()


def test_a_table_that_somebody_spoiled_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = keep_runs(tmp_path) / "rolling" / "table.md"
    path.write_text(path.read_text().replace("| 20 s | 4 |", "| 20 s |"))
    with pytest.raises(MisuseError, match="not what `outrider-lab run` writes: a row has not 2 cells"):
        page(tmp_path)


def test_a_run_that_does_not_say_where_it_comes_from_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = keep_runs(tmp_path) / "rolling" / "results.json"
    path.write_text(path.read_text().replace('"machine"', '"apparatus"'))
    with pytest.raises(MisuseError, match="does not say where the run comes from: it lacks 'machine'"):
        page(tmp_path)


def test_every_kept_results_belongs_to_a_group() -> None:
    assert {each.plot.partition(":")[0].rpartition(".")[2] for each in EXPERIMENTS.values()} == set(GROUPS)


@pytest.mark.parametrize(("name", "report"), REPORTS.items(), ids=REPORTS)
def test_a_table_is_read_as_it_was_written(kept: Path, name: str, report: Report) -> None:
    table = read_table((kept / name / "table.md").read_text())
    assert list(table.headings) == list(report.headings)
    assert [list(row) for row in table.rows] == report.rows
    assert list(table.remarks) == list(report.remarks)


def test_the_kept_page_is_made_from_the_kept_results() -> None:
    written = (BENCHMARKS / "index.html").read_text(encoding="utf-8")
    assert written == make_page(BENCHMARKS), "run `outrider-lab page docs/benchmarks`"
    assert len(written.encode()) < 2_000_000
