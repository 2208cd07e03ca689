"""netem.experiments.figures: figures are read by key, written anew in place, and missing keys are said."""

import json
from pathlib import Path

import pytest

from common.protocol.errors import MisuseError
from netem.commands.figures import refresh_documents
from netem.experiments.figures import Figure, figures, refreshed

RESULTS = {
    "drafts": {"moa, N=0": {"length": 5.0}, "eagle": {"length": 4.0}},
    "rows": [{"rule": "greedy", "chain": 1, "rate": 0.5}, {"rule": "greedy", "chain": 2, "rate": 0.25}],
    "loads": [{"of": "requests/s", "speed": 32.5}],
    "waits": [
        {"cause": "cut", "seconds": [4, 1, 9], "hosts": [{"name": "a"}]},
        {"cause": "none", "seconds": [], "hosts": []},
        {"cause": "kill", "seconds": [8], "hosts": [{"name": "b"}]},
    ],
    "points": [{"kept": True, "ratio": 0.9}, {"kept": True, "ratio": 1.25}, {"kept": False}],
    "fingerprint": "6af9e99d76b5c0ffee",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    return tmp_path


def page(recipe: str, text: str = "0") -> str:
    sentence = f"As much as [{text}][it]x; see [a link](elsewhere.md) and [not ours][other]."
    return f'{sentence}\n\n[it]: results.json "{recipe}"\n'


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (".2f /drafts/moa, N=0/length", "5.00"),
        (".0% /rows/rule=greedy&chain=2/rate", "25%"),
        (".2f /drafts/moa, N=0/length : /drafts/eagle/length", "1.25"),
        (".2f /drafts/moa, N=0/length : /drafts/eagle/length : 2", "0.62"),
        (".1f /loads/of=requests~1s/speed", "32.5"),
        (".12 /fingerprint", "6af9e99d76b5"),
        (".1f least /drafts/*/length", "4.0"),
        (".1f most /drafts/moa, N=0|eagle/length", "5.0"),
        ("d sum /waits/*/seconds/*", "22"),
        ("d sum /waits/cause=cut|kill/seconds/0", "12"),
        ("g median /waits/*/seconds/*", "6"),
        ("d count /waits/cause!=none", "2"),
        ("d count /waits/*/hosts/name=a", "1"),
        ("d count /waits/cause=none&cause=cut", "0"),
        ("d count /waits/cause!=cut|kill", "1"),
        ("d count /points/kept=True&ratio<1", "1"),
        ("d count /points/ratio>2", "0"),
        (".0% count /points/kept=True : count /points/*", "67%"),
        ("g /waits/cause=cut/seconds/2", "9"),
        ("holds least /points/kept=True/ratio < 1 < most /points/kept=True/ratio", "yes"),
        ("holds /drafts/moa, N=0/length > /drafts/eagle/length", "yes"),
        ("holds /drafts/eagle/length > /drafts/moa, N=0/length", "no"),
        ("holds 0.9 < /drafts/moa, N=0/length : /drafts/eagle/length < 1.1", "no"),
        ("holds 4.5 < /drafts/moa, N=0/length < 5.5", "yes"),
    ],
)
def test_a_figure_is_what_its_definition_says(folder: Path, recipe: str, expected: str) -> None:
    assert figures(page(recipe), folder) == [Figure("it", "0", expected)]
    assert refreshed(page(recipe), folder) == page(recipe, expected)


@pytest.mark.parametrize(
    "recipe",
    [
        ".2f /drafts/hydra/length",
        ".2f /rows/rule=greedy/rate",
        ".2f /rows/rule=typical/rate",
        ".2f /fingerprint",
        ".2f /drafts",
        ".2f /drafts/*/length",
        ".2f least /drafts/moa, N=0|hydra/length",
        "d count /waits/reason=cut",
        "d count /waits/cause",
        ".2f least /points/ratio>2/ratio",
        ".2f least /fingerprint/*",
        ".2f fewest /drafts/*/length",
        "holds /drafts/eagle/length",
        ".2f",
    ],
)
def test_what_the_results_do_not_have_is_said_with_its_label(folder: Path, recipe: str) -> None:
    with pytest.raises(MisuseError, match=r"\[it\] cannot be read from results.json"):
        figures(page(recipe), folder)


def test_a_missing_file_and_an_unused_definition_are_said(folder: Path) -> None:
    with pytest.raises(MisuseError, match=r"\[it\] cannot be read from gone.json"):
        figures(page(".2f /x").replace("results.json", "gone.json"), folder)
    with pytest.raises(MisuseError, match=r"no figure uses the definition \[it\]"):
        figures('Nothing.\n\n[it]: results.json ".2f /x"\n', folder)


def test_documents_are_written_anew_where_a_figure_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, before = folder / "page.md", page(".2f /drafts/eagle/length", "3.90")
    document.write_text(before)
    assert refresh_documents([document], check=True)
    assert document.read_text() == before
    assert refresh_documents([document], check=False) == [Figure("it", "3.90", "4.00")]
    assert "[it] 3.90 -> 4.00" in capsys.readouterr().out
    assert document.read_text() == page(".2f /drafts/eagle/length", "4.00")
    assert refresh_documents([document], check=True) == []
    with pytest.raises(MisuseError, match="cannot be read"):
        refresh_documents([folder / "gone.md"], check=True)
