"""The demo's comparison on the virtual clock: its command line and its output."""

import json

import pytest

from client.demo import children
from client.demo.virtual import compare_virtually
from client.errors import DemoError
from tests.client.demo.answers import answer, counted

LAB = """\
import sys
told = dict(zip(sys.argv[3::2], sys.argv[4::2]))
assert sys.argv[1:3] == ["demo", "satellite"], sys.argv
assert [told[each] for each in ("--prompts", "--seed", "--cost-factor")] == ["2", "5", "4.0"], told
assert "--models" not in told, told
open(told["--out"], "w").write({written!r})
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Writes a program that is run in place of `outrider-lab`."""
    monkeypatch.setattr(children, "installed", lambda command: tmp_path / command)
    return lambda code: (tmp_path / "outrider-lab").write_text(code)


def written() -> dict:
    given = answer((7, 8))
    told = {"token_ids": [7, 8], "finish_reason": "end_token", "stats": given.stats.as_dict()}
    return {"systems": {"cloud": {"answers": [told], "server": counted()}}, "stated_costs": {"pass_ms": 30.0}}


async def test_the_lab_s_answers_are_read_as_they_are(lab):
    lab(LAB.format(written=json.dumps(written())))
    run = await compare_virtually(None, "satellite", 2, 16, 5, 4.0)
    assert run.answers == {"cloud": [answer((7, 8))]}
    assert run.counters == {"cloud": counted()}
    assert run.stated_costs == {"pass_ms": 30.0}


@pytest.mark.parametrize("said", ["", "{}", '{"systems": {"cloud": {"answers": [{}]}}}', "[]"])
async def test_a_lab_of_another_version_is_one_sentence(lab, said):
    lab(LAB.format(written=said))
    with pytest.raises(DemoError, match="install one version"):
        await compare_virtually(None, "satellite", 2, 16, 5, 4.0)


async def test_a_lab_that_fails_is_told_in_its_own_words(lab):
    lab("import sys; sys.exit('outrider-lab: there is no link satelite')")
    with pytest.raises(DemoError, match=r"^outrider-lab failed: there is no link satelite$"):
        await compare_virtually(None, "satellite", 2, 16, 5, 4.0)
