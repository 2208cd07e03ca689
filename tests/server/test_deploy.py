"""What is shipped to run servers: a systemd unit, an image that holds what is needed, manifests for Kubernetes."""

import configparser
import shutil
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import typer
import yaml

from common.programs.interruption import TERMINATED
from server.cli import app
from server.cli_options import SessionFlags
from tests.programs import command

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCS = DEPLOY.parent / "docs"
UNIT = DEPLOY / "outriderd.service"
PROGRAM = "/opt/outrider/.venv/bin/outriderd"


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    return unit["Service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(PROGRAM, command("outriderd")))
    assert unit.read_text() != UNIT.read_text()
    checked = run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_systemd_waits_until_the_server_has_drained() -> None:
    assert float(service()["TimeoutStopSec"]) >= SessionFlags().drain_seconds + 10


def test_what_an_operator_got_wrong_is_not_tried_again() -> None:
    assert service()["RestartPreventExitStatus"] == "2"


def test_to_stop_what_still_loads_is_no_failure() -> None:
    assert service()["SuccessExitStatus"] == str(TERMINATED)


def test_the_image_is_made_of_every_package_and_the_shipped_models() -> None:
    root = DEPLOY.parent
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert {"client", "common", "netem", "server", "training", "models/demo"} <= set(kept)
    assert [name for name in kept if not (root / name).exists()] == []


def manifests() -> dict[str, Any]:
    """By their kinds."""
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def replica() -> Any:
    return manifests()["Deployment"]["spec"]["template"]["spec"]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What `outriderd` makes of a command line; a usage error where it does not know it."""
    command, *options = arguments
    group: Any = typer.main.get_command(app)
    parameters: dict[str, Any] = group.commands[command].make_context(command, options).params
    return parameters


def test_the_commands_in_the_manifests_are_ones_of_this_server() -> None:
    (container,) = replica()["containers"]
    served = parsed(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert served["listen"] == f"0.0.0.0:{ports['grpc']}"
    assert served["metrics"] == f"0.0.0.0:{ports['metrics']}"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        program, *asked = container[probe]["exec"]["command"]
        assert (program, parsed(asked)["address"]) == ("outriderd", f"127.0.0.1:{ports['grpc']}")


def test_kubernetes_waits_until_a_replica_has_drained() -> None:
    (container,) = replica()["containers"]
    assert replica()["terminationGracePeriodSeconds"] >= parsed(container["args"])["drain_seconds"] + 10


def test_the_user_in_the_manifests_is_the_one_of_the_image() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    assert f"--uid {replica()['securityContext']['runAsUser']} " in image


def test_files_that_replicas_read_are_mounted() -> None:
    (container,) = replica()["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    served = parsed(container["args"])
    for option, volume in (("tls_cert", "tls"), ("tls_key", "tls"), ("tokens_file", "tokens")):
        assert str(served[option].parent) == mounted[volume]
    assert {volume["name"] for volume in replica()["volumes"]} == mounted.keys()


def test_replicas_may_fetch_a_gated_target() -> None:
    """Their user has not logged in to the hub."""
    (container,) = replica()["containers"]
    (token,) = [variable for variable in container["env"] if variable["name"] == "HF_TOKEN"]
    secret = token["valueFrom"]["secretKeyRef"]
    assert secret.pop("optional"), "the shipped models need none"
    made = f"kubectl create secret generic {secret['name']} --from-file {secret['key']}="
    for page in (DEPLOY / "kubernetes.yaml", DOCS / "fleet.md"):
        assert made in page.read_text()


def test_where_the_hubs_cache_is_elsewhere_it_is_said_how_the_hubs_token_gets_there() -> None:
    elsewhere = [path for path in DEPLOY.iterdir() if "HF_HOME=" in path.read_text()]
    assert UNIT in elsewhere
    for path in elsewhere:
        assert "HF_TOKEN" in path.read_text()
    assert service()["EnvironmentFile"] == "-/etc/outrider/outriderd.env"
    page = (DOCS / "operating.md").read_text()
    assert "docker run --gpus all --env HF_TOKEN " in page
    assert all(
        "HF_TOKEN" in page.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in ("systemd", "Docker")
    )


def test_the_service_and_the_budget_choose_the_replicas() -> None:
    labels = manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests()["Service"]["spec"]["selector"].items() <= labels.items()
    assert manifests()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
