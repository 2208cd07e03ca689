"""What the pages name exists: files of this repository, links with their anchors, classes and methods."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.glob("*.md"), DOCS / "benchmarks" / "README.md"} - {DOCS / "log.md"})
"""The log tells of names as they were, and results under docs/benchmarks are left as they were written."""

FOLDERS = ["client", "common", "deploy", "docs", "models", "netem", "proto", "server", "tests", "training"]
PACKAGES = ("client", "common", "netem", "server", "training")
_PATH = re.compile(rf"(?<![\w/.~:-])(?:{'|'.join(FOLDERS)})(?:/[\w.-]*\w)+")
_MODULE = re.compile(r"(?<![\w/.-])(\w+\.(?:py|proto))\b")
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
_CLASS = re.compile(r"`([A-Z]\w*[a-z]\w*)(?=[`.{(])")
_METHOD = re.compile(r"\b([A-Z][a-z]\w*)\.([a-z]\w*)\b")
_DECLARED = re.compile(r"^(?:class|message) (\w+)", re.MULTILINE)
_ENTRY = re.compile(r"^( *)([\w/.]+/|\w+\.py) {2,}\S", re.MULTILINE)

PAGES_ON_CODE = ("architecture.md", "glossary.md", "CONTRIBUTING.md")
USERS_OWN = {"app.py"}
PLACEHOLDER = "NAME"


def by_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def sources() -> tuple[Path, ...]:
    return tuple(path for folder in FOLDERS for kind in ("py", "proto") for path in (ROOT / folder).rglob(f"*.{kind}"))


@cache
def declarations() -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8") for path in sources())


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_path_of_the_repository_exists(page):
    named = {path for path in _PATH.findall(page.read_text(encoding="utf-8")) if PLACEHOLDER not in path}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_module_named_without_a_folder_exists(page):
    names = {path.name for path in sources() if path.relative_to(ROOT).parts[0] != "tests"} | USERS_OWN
    named = {module for module in _MODULE.findall(page.read_text(encoding="utf-8")) if PLACEHOLDER not in module}
    assert sorted(named - names) == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_leads_somewhere(page):
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in PAGES_ON_CODE], ids=by_name)
def test_every_class_exists(page):
    declared = {name for text in declarations() for name in _DECLARED.findall(text)}
    named = {name for name in _CLASS.findall(page.read_text(encoding="utf-8")) if PLACEHOLDER not in name}
    assert sorted(named - declared) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in PAGES_ON_CODE], ids=by_name)
def test_every_method_exists(page):
    for owner, method in _METHOD.findall(page.read_text(encoding="utf-8")):
        assert any(owner in _DECLARED.findall(text) and f"def {method}(" in text for text in declarations()), (
            f"{owner}.{method}"
        )


def mapped() -> list[str]:
    """The folders and files of the architecture page's map."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listing = page.split("## Folders", 1)[1].split("```")[1]
    above: dict[int, Path] = {}
    listed = []
    for indent, name in _ENTRY.findall(listing):
        path = above.get(len(indent) - 2, ROOT) / name
        above[len(indent)] = path
        listed.append(path)
    return [by_name(path) for path in listed]


def test_the_folders_of_the_map_exist():
    assert [name for name in mapped() if not (ROOT / name).exists()] == []


def test_every_package_and_its_folders_are_on_the_map():
    inner = {by_name(path.parent) for top in PACKAGES for path in (ROOT / top).glob("*/__init__.py")}
    assert len(inner) > 20
    assert sorted({*PACKAGES, *inner} - set(mapped())) == []
