"""The files of the service hold the command's words as they are."""

import plistlib
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from client.service_files import ServedCommand, launchd_plist, systemd_unit

WORDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r", categories=["L", "N", "P", "S", "Zs"]))
)
FOLDER = Path("/home/somebody/100% mine")


NAMES = st.dictionaries(st.sampled_from(["OUTRIDER_MODEL", "OUTRIDER_TLS"]), WORDS.map(" ".join))


def as_systemd_reads(line: str) -> list[str]:
    """The words of an ExecStart= in which each is in double quotes, by systemd.syntax(7) and systemd.service(5)."""
    words = as_systemd_unquotes(line)
    assert all(re.fullmatch(r"(?:[^$]|\$\$)*", word) for word in words), "systemd would replace something"
    return [word.replace("$$", "$") for word in words]


def as_systemd_unquotes(line: str) -> list[str]:
    """What is in double quotes, by systemd.syntax(7) and systemd.unit(5)."""
    words = [re.sub(r"\\(.)", r"\1", quoted) for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]
    assert all(re.fullmatch(r"(?:[^%]|%%)*", word) for word in words), "systemd would replace something"
    return [word.replace("%%", "%") for word in words]


@given(WORDS, NAMES)
def test_a_unit_starts_the_command_with_its_words_and_variables(words: list[str], variables: dict[str, str]) -> None:
    unit = systemd_unit(ServedCommand(["/usr/bin/outrider", *words], FOLDER, variables))
    lines = unit.split("\n")
    (line,) = (line for line in lines if line.startswith("ExecStart="))
    assert as_systemd_reads(line) == ["/usr/bin/outrider", *words]
    assert "WorkingDirectory=-/home/somebody/100%% mine\n" in unit  # the minus: it may be gone
    seen = [as_systemd_unquotes(line) for line in lines if line.startswith("Environment=")]
    assert seen == [[f"{name}={value}"] for name, value in variables.items()]


@given(WORDS, NAMES)
def test_a_property_list_starts_the_command_with_its_words_and_variables(
    words: list[str], variables: dict[str, str]
) -> None:
    held = plistlib.loads(launchd_plist(ServedCommand(["outrider", *words], FOLDER, variables), Path("/tmp/log")))
    assert held["ProgramArguments"] == ["outrider", *words]
    assert held["EnvironmentVariables"] == variables
    assert held["WorkingDirectory"] == str(FOLDER)
    assert held["RunAtLoad"]
    assert held["KeepAlive"] == {"SuccessfulExit": False}
