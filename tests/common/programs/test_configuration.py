"""common.programs.configuration: flag before environment before file before default, one sentence for what is wrong."""

import os
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from common.programs.command_line import run
from common.programs.configuration import ConfigFile, Program, configure, unread_variables, without_settings
from common.programs.settings import show_settings

Heard = dict[str, object]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """The default path of the program's configuration file."""
    monkeypatch.delenv("TOOL_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def tool(home, monkeypatch, capsys):
    """Runs the program; returns the exit code, the arguments of its command, and its output."""

    def invoke(*arguments: str) -> tuple[int, Heard, str]:
        heard: Heard = {}
        monkeypatch.setattr(sys, "argv", ["tool", *arguments])
        with pytest.raises(SystemExit) as ended:
            run(_app(Program("tool", (home / "tool.toml",), tolerant=frozenset({"mend"})), heard), "tool")
        written = capsys.readouterr()
        return int(ended.value.code or 0), heard, written.out + written.err

    return invoke


def _app(program: Program, heard: Heard) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.callback()
    def configured(context: typer.Context, config: ConfigFile = None) -> None:
        configure(context, program, config)

    @app.command()
    def sing(
        tune: Annotated[str, typer.Option("--tune")],
        max_notes: Annotated[int, typer.Option("--max-notes", min=1)] = 8,
        pitch: Annotated[float, typer.Option("--pitch")] = 1.0,
        loud: Annotated[bool, typer.Option("--loud")] = False,
        score: Annotated[Path | None, typer.Option("--score")] = None,
        verse: Annotated[list[str] | None, typer.Option("--verse")] = None,
        token: Annotated[str | None, typer.Option("--token")] = None,
        fleet_store: Annotated[str | None, typer.Option("--fleet-store")] = None,
        as_json: Annotated[bool, typer.Option("--json")] = False,
    ) -> None:
        heard.update(tune=tune, max_notes=max_notes, pitch=pitch, loud=loud, score=score, verse=verse)
        heard.update(token=token, fleet_store=fleet_store, as_json=as_json)

    @app.command()
    def hum(pitch: Annotated[float, typer.Option("--pitch")] = 2.0, verse: str = "") -> None:
        heard.update(pitch=pitch, verse=verse)

    @app.command()
    def mend(context: typer.Context) -> None:
        heard.update(unread=unread_variables(context, program, os.environ))

    @app.command()
    def config(context: typer.Context, command: Annotated[str | None, typer.Argument()] = None) -> None:
        show_settings(context, program, command)

    return app


def test_a_flag_comes_before_the_environment_the_file_and_the_default(tool, home, monkeypatch):
    (home / "tool.toml").write_text('tune = "file"\npitch = 3\nmax_notes = 4\n[sing]\npitch = 5.5\n')
    heard = tool("sing")[1]
    assert (heard["tune"], heard["max_notes"], heard["pitch"], heard["loud"]) == ("file", 4, 5.5, False)
    assert tool("hum")[1]["pitch"] == 3.0
    monkeypatch.setenv("TOOL_TUNE", "environment")
    monkeypatch.setenv("TOOL_MAX_NOTES", "6")
    heard = tool("sing", "--max-notes", "7")[1]
    assert (heard["tune"], heard["max_notes"], heard["pitch"]) == ("environment", 7, 5.5)


def test_every_kind_of_option_can_stand_in_a_file(tool, home):
    (home / "tool.toml").write_text(
        'tune = 7\nloud = true\nscore = "songs/a.pdf"\njson = true\n[sing]\nverse = ["a b", "c"]\n'
    )
    heard = tool("sing")[1]
    assert (heard["tune"], heard["loud"], heard["as_json"], heard["verse"]) == ("7", True, True, ["a b", "c"])
    assert heard["score"] == home / "songs/a.pdf"


def test_a_path_in_a_file_may_begin_at_home_and_one_value_be_a_list(tool, home, monkeypatch):
    monkeypatch.setenv("HOME", "/home/of/someone")
    (home / "tool.toml").write_text('tune = "a"\nscore = "~/a.pdf"\n[sing]\nverse = "one"\n')
    heard = tool("sing")[1]
    assert (heard["score"], heard["verse"]) == (Path("/home/of/someone/a.pdf"), ["one"])


def test_a_flag_without_a_value_can_come_from_the_environment(tool, monkeypatch):
    monkeypatch.setenv("TOOL_TUNE", "a")
    monkeypatch.setenv("TOOL_JSON", "1")
    monkeypatch.setenv("TOOL_VERSE", "one two")
    heard = tool("sing")[1]
    assert (heard["as_json"], heard["verse"]) == (True, ["one", "two"])


def test_the_file_may_be_named(tool, home, tmp_path, monkeypatch):
    (home / "tool.toml").write_text('tune = "usual"\n')
    (tmp_path / "other.toml").write_text('tune = "other"\n')
    (tmp_path / "third.toml").write_text('tune = "third"\n')
    monkeypatch.setenv("TOOL_CONFIG", str(tmp_path / "other.toml"))
    assert tool("sing")[1]["tune"] == "other"
    assert tool("--config", str(tmp_path / "third.toml"), "sing")[1]["tune"] == "third"
    assert tool("--config", os.devnull, "sing", "--tune", "flag")[1]["tune"] == "flag"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("tyne = 1", "there is no option 'tyne'; did you mean 'tune'?"),
        ("zebra = 1", "there is no option 'zebra'\n"),
        ("[sing]\nmax_note = 1", "[sing] there is no option 'max_note'; did you mean 'max-notes'?"),
        ("[hum]\nloud = true", "[hum] there is no option 'loud'"),
        ("[snig]", "no command takes the table [snig]; did you mean [sing]?"),
        ("[tune]", "tune is an option and not a table; write tune = ..."),
        ("sing = 1", "sing is a command and not an option; write [sing]"),
        ("max_notes = 1\nmax-notes = 2", "max-notes is there twice"),
        ("max-notes = 1.5", "max-notes must be a whole number, not 1.5"),
        ("max-notes = true", "max-notes must be a whole number, not true"),
        ("max-notes = 0", "max-notes does not fit: Input should be greater than or equal to 1"),
        ('pitch = "high"', "pitch must be a number, not 'high'"),
        ("loud = 1", "loud must be true or false, not 1"),
        ("tune = [1]", "tune must be text in quotes, not a list"),
        ("tune = true", "tune must be text in quotes, not true"),
        ("score = 3", "score must be a path in quotes, not 3"),
        ('[hum]\npitch = "low"', "[hum] pitch must be a number"),
        ("tune = [", "is not valid TOML: "),
        ("tune = 'a'\ntune = 'b'", "is not valid TOML: "),
        (b"tune = '\xff'", "is not valid TOML: "),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_name_and_exit_code_2(tool, home, content, says):
    file = home / "tool.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, heard, written = tool("sing", "--tune", "a")
    assert (code, heard) == (2, {})
    assert written.startswith("tool: ")
    assert str(file) in written
    assert says in written
    assert written.count("\n") == 1


def test_what_suits_one_command_may_stand_for_all(tool, home):
    (home / "tool.toml").write_text('verse = ["a", "b"]\n')
    assert tool("sing", "--tune", "a")[1]["verse"] == ["a", "b"]
    assert tool("config")[0] == 0
    code, _, written = tool("hum")
    assert (code, "verse must be text in quotes, not a list" in written) == (2, True)


def test_a_file_that_cannot_be_read_is_one_sentence(tool, home):
    for path, reason in ((home / "absent.toml", "No such file or directory"), (home, "Is a directory")):
        code, _, written = tool("--config", str(path), "sing")
        assert (code, written) == (2, f"tool: the configuration file {path} cannot be read: {reason}\n")


def test_a_wrong_variable_is_named(tool, monkeypatch):
    monkeypatch.setenv("TOOL_MAX_NOTES", "many")
    code, _, written = tool("sing", "--tune", "a")
    assert code == 2
    assert "TOOL_MAX_NOTES" in written
    assert "--max-notes" not in written
    assert tool("sing", "--tune", "a", "--max-notes", "3")[0] == 0


def test_help_and_mending_work_with_a_wrong_file(tool, home):
    (home / "tool.toml").write_text("tyne = 1")
    code, _, written = tool("sing", "--help")
    assert (code, "--max-notes" in written) == (0, True)
    assert tool("mend")[0] == 0


def test_a_token_that_others_can_read_is_told(tool, home):
    file = home / "tool.toml"
    file.write_text('tune = "a"\n[sing]\ntoken = "hush"\n')
    file.chmod(0o644)
    assert f"chmod 600 {file}" in tool("sing")[2]
    file.chmod(0o600)
    assert tool("sing")[2] == ""
    file.write_text('tune = "a"\n')
    file.chmod(0o644)
    assert tool("sing")[2] == ""


@pytest.mark.parametrize("url", ["redis://:hush@a:1/0", "rediss://me:hush@a", "redis://a/0?db=1&password=hush"])
def test_a_stores_password_that_others_can_read_is_told_and_never_shown(tool, home, url):
    file = home / "tool.toml"
    file.write_text(f'tune = "a"\nfleet-store = "{url}"\n')
    file.chmod(0o644)
    told = f"others on this machine can read the store's password in {file}; run `chmod 600 {file}`"
    assert tool("sing")[2] == f"tool: {told}\n"
    for arguments in (("config",), ("config", "sing")):
        written = tool(*arguments)[2]
        assert ["fleet-store", "(set)", "file"] in [line.split() for line in written.splitlines()]
        assert "hush" not in written
    file.write_text(f'tune = "a"\ntoken = "b"\nfleet-store = "{url}"\n')
    assert "can read the token and the store's password in" in tool("sing")[2]
    file.write_text('tune = "a"\nfleet-store = "redis://a:6379/0"\n')
    assert tool("sing")[2] == ""


def test_settings_show_what_is_in_force_and_why_but_no_secret(tool, home, monkeypatch):
    file = home / "tool.toml"
    file.write_text('tune = "a"\nloud = true\n[sing]\ntoken = "hush"\nverse = ["b", "c"]\n')
    file.chmod(0o600)
    monkeypatch.setenv("TOOL_PITCH", "4")
    code, _, written = tool("config")
    assert code == 0
    assert [line.split() for line in written.splitlines()] == [
        ["file:", str(file)],
        ["tune", "a", "file"],
        ["pitch", "4.0", "TOOL_PITCH"],
        ["loud", "true", "file"],
        ["verse", "b,", "c", "file,", "[sing]"],
        ["token", "(set)", "file,", "[sing]"],
    ]
    assert "hush" not in written
    shown = [line.split() for line in tool("config", "sing")[2].splitlines()]
    assert ["max-notes", "8", "default"] in shown
    assert ["score", "-", "default"] in shown
    assert tool("config", "dance")[0] == 2


def test_settings_without_any(tool, home):
    assert tool("config")[2] == f"file: none; {home / 'tool.toml'} would be read\nevery option has its default\n"


def test_a_variable_that_nothing_reads_is_found(tool, monkeypatch):
    monkeypatch.setenv("TOOL_TYNE", "a")
    monkeypatch.setenv("TOOL_PITCH", "3")
    monkeypatch.setenv("TOOLBOX", "a")
    monkeypatch.setenv("TOOL_VERSION", "a")
    assert tool("mend")[1:] == ({"unread": {"TOOL_TYNE": "did you mean TOOL_TUNE?", "TOOL_VERSION": ""}}, "")
    assert tool("hum")[2] == "tool: nothing reads TOOL_TYNE; did you mean TOOL_TUNE?\n"


def test_a_program_can_be_run_as_if_nothing_were_configured():
    environment = {"TOOL_TUNE": "a", "TOOL_CONFIG": "b", "PATH": "c", "TOOLBOX": "d"}
    assert without_settings(environment, "tool") == {"PATH": "c", "TOOLBOX": "d", "TOOL_CONFIG": os.devnull}
