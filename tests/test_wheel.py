"""The wheel, built without a network: it holds what programs need wherever it is installed, and no tests."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email.parser import BytesParser
from pathlib import Path

import pytest

from common.programs.command_line import MISUSE

PROJECT = Path(__file__).parents[1]
PACKAGES = ("client", "common", "netem", "server", "training")
MODELS = Path("models", "demo")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "models", "tests", *PACKAGES)
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of this tree, because a build leaves files behind."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / name, tree / name)
    subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=tree, capture_output=True, check=True)
    (built,) = out.iterdir()
    return built


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """A folder that has only the wheel's files."""
    folder = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def held(wheel: Path) -> tuple[set[str], set[str]]:
    """The files that are installed beside other packages, and the wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if ".dist-info/" in name}
    return names - about, {name.partition("/")[2] for name in about}


def test_the_quick_start_says_how_large_it_is(wheel: Path) -> None:
    page = (PROJECT / "docs" / "quick-start.md").read_text()
    said = re.search(r"into one file of (\d+) MB", page)
    assert said is not None
    assert int(said[1]) == round(wheel.stat().st_size / 1e6)


def test_it_holds_every_file_of_packages_and_models_and_nothing_else(wheel: Path) -> None:
    """Stubs, static files and model cards included, and no tests."""
    here = {
        file.relative_to(PROJECT).as_posix()
        for folder in (*PACKAGES, MODELS)
        for file in (PROJECT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    names, _ = held(wheel)
    assert names == here
    stubs = "common/rpc/generated/outrider/v1/outrider_pb2"
    assert {f"{stubs}.py", f"{stubs}.pyi", f"{stubs}_grpc.py", "client/endpoint/static/index.html"} <= names
    assert {"models/demo/target/model.safetensors", "models/demo/moa/exporter.safetensors"} <= names
    assert {"models/demo/prompts.jsonl"} <= names


def test_it_says_its_licence_its_programs_and_its_extras(wheel: Path) -> None:
    _, about = held(wheel)
    assert {"licenses/LICENSE", "entry_points.txt"} <= about
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = BytesParser().parsebytes(archive.read(metadata))
        programs = ConfigParser()
        programs.read_string(archive.read(metadata.replace("METADATA", "entry_points.txt")).decode())
    assert dict(programs["console_scripts"]) == {
        "outrider": "client.cli:main",
        "outriderd": "server.cli:main",
        "outrider-lab": "netem.cli:main",
        "outrider-train": "training.cli:main",
    }
    assert told["License-Expression"] == "Apache-2.0"
    assert {"server", "lab", "train"} <= set(told.get_all("Provides-Extra"))
    assert told["Keywords"]


def run_python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python outside this tree, with the wheel's files first on its path."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-P", *arguments], cwd=installed.parent, env=environment, capture_output=True, text=True
    )


def test_installed_models_are_found_far_from_the_repository(installed: Path) -> None:
    asked = "from common.models.shipped import shipped_family as f; print(f('demo').target, len(f('demo').drafts))"
    done = run_python(installed, "-c", asked)
    drafts = len(list((PROJECT / MODELS).glob("*/config.json"))) - 1
    assert (done.stdout.split(), done.stderr) == ([str(installed / MODELS / "target"), str(drafts)], "")
    assert drafts > 1


def test_without_its_models_a_program_says_how_to_get_them(installed: Path) -> None:
    shutil.rmtree(installed / "models")
    done = run_python(installed, "-m", "server.cli", "serve", "--target", "demo", "--listen", "127.0.0.1:0")
    (sentence,) = done.stderr.splitlines()
    assert f"the shipped 'demo' models are not in {installed / MODELS}: reinstall Outrider from a wheel" in sentence
    assert done.returncode == MISUSE
