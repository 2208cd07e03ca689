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


def as_systemd_reads(line: str) -> list[str]:
    """The words of an ExecStart= in which each is in double quotes, by systemd.syntax(7) and systemd.service(5)."""
    read = []
    for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
        unescaped = re.sub(r"\\(.)", r"\1", quoted)
        assert re.fullmatch(r"(?:[^%$]|%%|\$\$)*", unescaped), "systemd would replace something"
        read.append(re.sub(r"([%$])\1", r"\1", unescaped))
    return read


@given(WORDS)
def test_a_unit_starts_the_command_with_its_words(words: list[str]) -> None:
    unit = systemd_unit(ServedCommand(["/usr/bin/outrider", *words], FOLDER))
    (line,) = (line for line in unit.split("\n") if line.startswith("ExecStart="))
    assert as_systemd_reads(line) == ["/usr/bin/outrider", *words]
    assert "WorkingDirectory=/home/somebody/100%% mine\n" in unit


@given(WORDS)
def test_a_property_list_starts_the_command_with_its_words(words: list[str]) -> None:
    held = plistlib.loads(launchd_plist(ServedCommand(["outrider", *words], FOLDER), Path("/tmp/log")))
    assert held["ProgramArguments"] == ["outrider", *words]
    assert held["WorkingDirectory"] == str(FOLDER)
    assert held["RunAtLoad"]
    assert held["KeepAlive"] == {"SuccessfulExit": False}
