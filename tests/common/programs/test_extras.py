"""An installation for laptops can run: packages import only what they declare, and programs name a missing extra."""

import ast
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from client import cli as client_cli
from common.programs.command_line import MISUSE
from common.programs.extras import EXTRAS, require_extra
from common.protocol.errors import MisuseError
from netem import cli as netem_cli
from server import cli as server_cli
from tests.audit.dependencies import Requirement, required_by
from training.draft_models.workers import ManyWorkers

PROJECT = Path(__file__).parents[3]
ABOUT = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
OURS = {"client", "common", "netem", "server", "training"}
PYTHON = "/path/of/python"
INSTALLED = packages_distributions()


IN_THE_APPS_ENVIRONMENTS = "netem/experiments/apps/programs/"
"""Programs that run with the Python of an environment in which an app is installed."""

WITH_FURTHER_EXTRAS = {("redis", "server/fleet/redis_store.py"), ("ray", "server/supervisor/ray_replicas.py")}
"""Modules and the files that import them, each behind an option that asks for a further extra."""


def distributions(module: str) -> set[str]:
    return {canonicalize_name(name) for name in INSTALLED.get(module, ())}


def declared(extra: str) -> set[str]:
    """The distributions that are certainly installed with that extra (with none if it is empty)."""
    of_extra = required_by(ABOUT, extra) if extra else []
    return {canonicalize_name(each.name) for each in (*map(Requirement, ABOUT["dependencies"]), *of_extra)}


def imported(package: str) -> Iterator[tuple[str, str]]:
    """Each foreign module with the file that imports it, including late imports."""
    for file in (PROJECT / package).rglob("*.py"):
        if str(file.relative_to(PROJECT)).startswith(IN_THE_APPS_ENVIRONMENTS):
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            else:
                continue
            for name in names:
                module = name.partition(".")[0]
                if module not in sys.stdlib_module_names and module not in OURS:
                    yield module, str(file.relative_to(PROJECT))


@pytest.mark.parametrize(
    ("package", "extra"),
    [("common", ""), ("client", ""), ("server", "server"), ("netem", "lab"), ("training", "train")],
)
def test_a_package_imports_only_what_its_extra_installs(package: str, extra: str) -> None:
    known = declared(extra)
    undeclared = {(module, file) for module, file in imported(package) if not distributions(module) & known}
    assert undeclared == {each for each in WITH_FURTHER_EXTRAS if each[1].startswith(f"{package}/")}


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_is_looked_for_is_what_the_extra_installs(extra: str) -> None:
    added = {canonicalize_name(each.name) for each in required_by(ABOUT, extra)}
    assert {name for module in EXTRAS[extra] for name in distributions(module)} == added


@pytest.mark.parametrize(
    ("main", "typed", "extra", "lacking"),
    [
        (server_cli.main, "outriderd serve --target demo --listen 127.0.0.1:0", "server", "grpc_reflection"),
        (server_cli.main, "outriderd serve --target demo --listen 127.0.0.1:0", "server", "prometheus_client"),
        (server_cli.main, "outriderd serve --target demo --fleet-store redis://127.0.0.1:1/0", "store", "redis"),
        (server_cli.main, "outriderd fleet --target demo --replicas 2", "fleet", "ray"),
        (client_cli.main, "outrider demo --prompts 1 --max-new-tokens 1", "server", "prometheus_client"),
        (client_cli.main, "outrider demo --page --listen 127.0.0.1:0", "server", "grpc_reflection"),
        (netem_cli.main, "outrider-lab run states --quick --out FOLDER", "lab", "matplotlib"),
        (netem_cli.main, "outrider-lab run soak --quick --out FOLDER", "lab", "openai"),
        (netem_cli.main, "outrider-lab run clients --quick --out FOLDER", "lab", "prometheus_client"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_command_that_installs_it(
    main: Callable[[], None],
    typed: str,
    extra: str,
    lacking: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", typed.replace("FOLDER", str(tmp_path / "out")).split())
    monkeypatch.setattr(sys, "executable", PYTHON)
    monkeypatch.setitem(sys.modules, lacking, None)  # as if it were not installed
    with pytest.raises(SystemExit) as ended:
        main()
    (sentence,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == MISUSE
    assert sentence.startswith(f"{typed.split()[0]}: ")
    assert sentence.endswith(
        f"needs modules that are not installed ({lacking}): run `{PYTHON} -m pip install '.[{extra}]'` in a clone of "
        "Outrider, or with the path of the wheel in place of the dot"
    )


def test_training_in_several_processes_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", PYTHON)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MisuseError, match=r"accelerate.*`/path/of/python -m pip install '\.\[train\]'` in a clone"):
        ManyWorkers("cpu")


def test_an_environment_without_pip_is_one_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my tools/python")
    for absent in ("pip", "matplotlib"):
        monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MisuseError, match=r"`uv pip install --python '/my tools/python' '\.\[lab\]'` in a clone"):
        require_extra("lab", "drawing")
