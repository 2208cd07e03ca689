"""Aliases and presets of a configuration file: names that stand for options of the command to which they are given."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from common.programs.command_line import run
from common.programs.configuration import ConfigFile, Program, configure
from common.programs.option_sets import alias_applied, aliases_applied, preset_applied, preset_names
from common.programs.settings import show_settings

Tool = Callable[..., tuple[int, dict[str, Any], str]]


def one(context: typer.Context, given: str) -> str:
    return alias_applied(context, "model", given)


def many(context: typer.Context, given: list[str] | None) -> list[str]:
    return aliases_applied(context, "model", given or [])


def preset(context: typer.Context, given: str | None) -> str | None:
    return preset_applied(context, given)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TOOL_CONFIG", raising=False)
    return tmp_path / "tool.toml"


@pytest.fixture
def tool(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs the program; returns the exit code, the arguments of its command, and its output."""

    def invoke(*arguments: str) -> tuple[int, dict[str, Any], str]:
        heard: dict[str, Any] = {}
        app, program = typer.Typer(add_completion=False), Program("tool", (file,), has_sets=True)

        @app.callback()
        def configured(context: typer.Context, config: ConfigFile = None) -> None:
            configure(context, program, config)

        @app.command()
        def ask(
            server: Annotated[str, typer.Option("--server")],
            preset: Annotated[str | None, typer.Option("--preset", callback=preset, is_eager=True)] = None,
            model: Annotated[str, typer.Option("--model", callback=one, is_eager=True)] = "",
            ca: Annotated[Path | None, typer.Option("--ca")] = None,
            count: Annotated[int, typer.Option("--count", min=1)] = 1,
            token: Annotated[str, typer.Option("--token")] = "",
        ) -> None:
            heard.update(server=server, model=model, ca=ca, count=count)

        @app.command()
        def offer(
            model: Annotated[list[str] | None, typer.Option("--model", callback=many, is_eager=True)] = None,
            server: Annotated[str, typer.Option("--server")] = "none",
        ) -> None:
            heard.update(server=server, model=model)

        @app.command()
        def config(context: typer.Context) -> None:
            show_settings(context, program, None)

        monkeypatch.setattr(sys, "argv", ["tool", *arguments])
        with pytest.raises(SystemExit) as ended:
            run(app, "tool")
        written = capsys.readouterr()
        return int(ended.value.code or 0), heard, written.out + written.err

    return invoke


def test_an_alias_stands_for_options_before_the_environment_and_the_file_and_after_flags(
    tool: Tool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = 'server = "usual"\ncount = 2\n[ask]\ncount = 3\n'
    file.write_text(shared + '[aliases.work]\nserver = "there"\nmodel = "llama"\nca = "ca.pem"\n')
    monkeypatch.setenv("TOOL_SERVER", "environment")
    assert tool("ask")[1] == {"server": "environment", "model": "", "ca": None, "count": 3}
    named = {"server": "there", "model": "llama", "ca": file.parent / "ca.pem", "count": 3}
    assert tool("ask", "--model", "work")[1] == named
    assert tool("ask", "--server", "flag", "--model", "work")[1] == {**named, "server": "flag"}
    assert tool("ask", "--model", "llama")[1]["server"] == "environment"
    monkeypatch.setenv("TOOL_MODEL", "work")
    assert tool("ask")[1] == named


def test_the_file_may_name_the_alias_that_is_usual(tool: Tool, file: Path) -> None:
    file.write_text('model = "work"\n[aliases.work]\nserver = "there"\n')
    assert tool("ask")[1] == {"server": "there", "model": "", "ca": None, "count": 1}
    assert tool("offer")[1] == {"server": "there", "model": None}


def test_an_alias_is_not_looked_up_in_another_one(tool: Tool, file: Path) -> None:
    file.write_text('[aliases.a]\nserver = "one"\nmodel = "b"\n[aliases.b]\nserver = "two"\nmodel = "a"\n')
    assert tool("ask", "--model", "a")[1]["model"] == "b"
    assert tool("ask", "--model", "b")[1] == {"server": "two", "model": "a", "ca": None, "count": 1}


def test_an_alias_stands_alone_where_several_names_may_be_given(tool: Tool, file: Path) -> None:
    file.write_text('[aliases.work]\nserver = "there"\nmodel = "llama"\n')
    assert tool("offer", "--model", "work")[1] == {"server": "there", "model": ["llama"]}
    assert tool("offer", "--model", "x", "--model", "y")[1] == {"server": "none", "model": ["x", "y"]}
    code, _, said = tool("offer", "--model", "x", "--model", "work")
    assert (code, said) == (2, "tool: 'work' is an alias, which may name a server of its own; give it alone\n")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("aliases = 3", "aliases is a table; write [aliases.NAME]"),
        ("[aliases]\nwork = 3", "the alias 'work' stands for nothing; give [aliases.work] options"),
        ("[aliases.work]", "the alias 'work' stands for nothing"),
        ('[aliases."a b"]\nserver = "x"', "[aliases] no alias can be named 'a b'; use 1 to 64 of the letters"),
        ('[aliases."--model"]\nserver = "x"', "no alias can be named '--model'"),
        ('[aliases.work]\nsever = "x"', "[aliases.work] there is no option 'sever'; did you mean 'server'?"),
        ('[aliases.work]\ncount = "many"', "[aliases.work] count must be a whole number, not 'many'"),
        ("[aliases.work]\ncount = 0", "[aliases.work] count does not fit"),
    ],
)
def test_what_is_no_alias_is_told_before_any_is_used(tool: Tool, file: Path, content: str, sentence: str) -> None:
    file.write_text(content + "\n")
    code, heard, said = tool("ask", "--server", "x")
    assert (code, heard) == (2, {})
    assert f"{file}: " in said
    assert sentence in said
    assert said.count("\n") == 1


def test_aliases_are_shown_without_secrets_and_others_are_kept_from_these(tool: Tool, file: Path) -> None:
    file.write_text('[aliases.work]\nserver = "there"\ntoken = "hush"\n')
    file.chmod(0o644)
    shown = tool("config")[2]
    assert "alias work: server there, token (set)\n" in shown
    assert "hush" not in shown
    assert f"chmod 600 {file}" in shown


def test_a_preset_holds_before_the_environment_and_the_file_and_after_flags(
    tool: Tool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('count = 2\n[presets.long]\nserver = "there"\ncount = 9\n')
    monkeypatch.setenv("TOOL_COUNT", "4")
    assert tool("ask", "--server", "here")[1]["count"] == 4
    assert tool("ask", "--preset", "long")[1] == {"server": "there", "model": "", "ca": None, "count": 9}
    assert tool("ask", "--count", "7", "--preset", "long")[1]["count"] == 7
    monkeypatch.setenv("TOOL_PRESET", "long")
    assert tool("ask")[1]["count"] == 9


def test_a_preset_may_name_an_alias(tool: Tool, file: Path) -> None:
    file.write_text('[presets.long]\nmodel = "work"\ncount = 9\n[aliases.work]\nserver = "there"\nmodel = "llama"\n')
    assert tool("ask", "--preset", "long")[1] == {"server": "there", "model": "llama", "ca": None, "count": 9}


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ("", "long", "there is no preset 'long'; [presets.long] in"),
        ("[presets.long]\ncount = 9\n", "lnog", "there is no preset 'lnog'; did you mean"),
        ("[presets.long]\ncuont = 9\n", "long", "[presets.long] there is no option 'cuont'; did you mean 'count'?"),
        ("[presets.long]\ncount = 0\n", "long", "[presets.long] count does not fit"),
        ("[presets.long]\n", "long", "the preset 'long' stands for nothing"),
        ("presets = 3\n", "long", "presets is a table; write [presets.NAME]"),
    ],
)
def test_a_preset_that_cannot_be_is_misuse(tool: Tool, file: Path, content: str, name: str, says: str) -> None:
    file.write_text(content)
    code, _, out = tool("ask", "--server", "here", "--preset", name)
    assert (code, out.count("\n")) == (2, 1)
    assert says in out


def test_names_of_presets_are_known_for_completion_whatever_the_file_is_like(file: Path) -> None:
    assert preset_names(file) == []
    for content, names in (("[presets.long]\nx = 1\n[presets.b]\n", ["long", "b"]), ("presets = 3", []), ("[", [])):
        file.write_text(content)
        assert preset_names(file) == names
