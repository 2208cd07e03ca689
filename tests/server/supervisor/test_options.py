"""What `outriderd fleet` makes of its command line: the fleet's own options, and those of each replica."""

import os
from pathlib import Path

import pytest

from common.address import Address
from server.cli import main
from server.supervisor import command
from server.supervisor.command import launch_of
from server.supervisor.devices import Needs
from server.supervisor.options import SupervisorOptions
from server.supervisor.scaling import Bounds


def options_for(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> SupervisorOptions:
    found: list[SupervisorOptions] = []
    monkeypatch.setattr(command, "run", found.append)
    monkeypatch.setattr("sys.argv", ["outriderd", "fleet", "--target", "demo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return found[0]


def test_replicas_get_the_options_of_serve_and_the_fleet_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_for(
        monkeypatch,
        *("--replicas", "2:4", "--ray", "head:6379", "--device", "cuda", "--tensor-parallel", "2", "--fast"),
        *("--cache-tokens", "100", "--max-running", "9", "--listen", "0.0.0.0:7100", "--insecure", "--no-cuda-graphs"),
        *("--metrics", "127.0.0.1:9090", "--drain-seconds", "3", "--log", "json"),
    )
    assert options.bounds == Bounds(2, 4, 9)
    assert options.needs == Needs(4, 2, "cuda")
    assert options.ray == Address("head", 6379)
    assert options.report.metrics == Address("127.0.0.1", 9090)
    launch = options.launch
    given = " ".join(launch.arguments)
    assert (launch.drain_s, launch.folder, launch.environment.get("OUTRIDERD_FLEET_STORE")) == (3.0, os.getcwd(), None)
    for pair in ("--target demo", "--tensor-parallel 2", "--cache-tokens 100", "--max-running 9", "--log json"):
        assert pair in given
    for flag in ("--fast", "--no-cuda-graphs", "--insecure"):
        assert flag in launch.arguments
    for own in ("--replicas", "--ray", "--listen", "--metrics", "--batch-invariant", "--fleet-store", "--tls-cert"):
        assert own not in launch.arguments


def test_replicas_listen_one_port_after_the_other_but_for_free_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    first = options_for(monkeypatch, "--replicas", "3").launch
    assert [launch_of(first, number).listen.port for number in range(3)] == [7070, 7071, 7072]
    free = options_for(
        monkeypatch, "--replicas", "3", "--listen", "127.0.0.1:0", "--fleet-store", "redis://store"
    ).launch
    assert launch_of(free, 2).listen.port == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--device", "cuda:1"), "Ray chooses the GPUs of a fleet; give --device cuda in place of cuda:1"),
        (
            ("--listen", "0.0.0.0:0", "--insecure", "--fleet-store", "redis://store"),
            "give --listen a port, or --advertise",
        ),
    ],
)
def test_what_no_replica_could_begin_with_is_refused_before_any_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.setattr(command, "run", lambda _: pytest.fail("it began"))
    monkeypatch.setattr("sys.argv", ["outriderd", "fleet", "--target", "demo", "--replicas", "2", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_store_s_password_is_on_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "redis://:secret@store:6379/0"
    launch = options_for(monkeypatch, "--replicas", "2", "--fleet-store", url, "--advertise", "lb:443").launch
    assert launch.environment["OUTRIDERD_FLEET_STORE"] == url
    assert launch.advertised == Address("lb", 443)
    assert "secret" not in " ".join(launch.arguments)


def test_a_configuration_file_holds_for_replicas_that_do_not_read_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "outriderd.toml"
    file.write_text('replicas = "2"\nmax_sessions = 5\n[fleet]\nlease = 7.0\n[serve]\nlease = 9.0\n')
    monkeypatch.setenv("OUTRIDERD_CONFIG", str(file))
    options = options_for(monkeypatch)
    given = " ".join(options.launch.arguments)
    assert "--max-sessions 5" in given
    assert "--lease 7.0" in given
    assert options.bounds.slots == 5
