from collections import Counter
from pathlib import Path

import pytest

from client.answering import AnswerOptions
from client.drafting.policies import STREAM
from common.models.checkpoint import load_causal_lm
from common.models.errors import CheckpointError
from netem.experiments import families
from netem.experiments.families import FamilyOutcome, judge, make_report
from netem.experiments.family_checkpoints import FAMILIES, make_family_checkpoint
from netem.experiments.references import reference_answer
from netem.links.profiles import PROFILES
from netem.virtual.client import DraftSetup, LoadedDrafts, ask
from netem.virtual.clock import run_virtually
from netem.virtual.server import load_virtual_server
from tests.drafts import make_moa_draft


@pytest.mark.parametrize("name", ["gemma2", "stablelm"])
def test_streamed_sessions_of_a_family_answer_as_generate_does(name: str) -> None:
    outcome = judge(FAMILIES[name], seed=3)
    assert not outcome.refusal
    for draft in families.DRAFTS:
        assert outcome.tally[draft]["identical"] == families.PROMPTS
    near = outcome.tally[families.NEAR]
    assert near["passes"] < near["tokens"], "no drafted token was accepted, so that no tree was verified"


@pytest.mark.parametrize("name", ["gemma2", "granite"])
def test_a_client_runs_the_last_layers_of_a_family_that_the_server_exported(name: str, tmp_path: Path) -> None:
    target = make_family_checkpoint(tmp_path / "target", FAMILIES[name])
    server = load_virtual_server(target, [make_moa_draft(tmp_path / "moa", target, (0, 2))])
    drafter = LoadedDrafts(server).drafter(DraftSetup("moa", 2))
    due = reference_answer(load_causal_lm(target), list(range(20, 40)), tuple(server.offer.card.end_tokens), 24)

    async def main() -> tuple[int, ...]:
        async with server.serve() as engine:
            options = AnswerOptions(STREAM, 24, idle="patient", pace=0.005)
            return (await ask(engine, server, PROFILES["4g"], due.prompt, options, drafter)).tokens

    assert run_virtually(main()) == due.answer


def test_an_answer_ends_where_longrope_would_choose_other_frequencies(tmp_path: Path) -> None:
    target = make_family_checkpoint(tmp_path / "target", FAMILIES["phi3-longrope"])
    server = load_virtual_server(target, [])
    trained, room = 128, 8
    prompt = list(range(20, 20 + trained - room))
    due = reference_answer(load_causal_lm(target), prompt, tuple(server.offer.card.end_tokens), room)

    async def main() -> tuple[int, ...]:
        async with server.serve() as engine:
            drafter = LoadedDrafts(server).drafter(DraftSetup("lookup"))
            options = AnswerOptions(STREAM, 3 * room, idle="patient", pace=0.005)
            return (await ask(engine, server, PROFILES["4g"], due.prompt, options, drafter)).tokens

    assert run_virtually(main()) == due.answer
    assert len(due.answer) == room


def test_a_refused_family_is_a_fault_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CheckpointError("packed passes do not agree")

    monkeypatch.setattr(families, "load_virtual_server", refuse)
    report = make_report([judge(FAMILIES["llama"], seed=0)])
    assert report.rows == [["llama", "grouped heads", "refused", "", "", "", "", ""]]
    assert report.faults == ["llama is refused: packed passes do not agree"]


def test_a_drafter_that_fails_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such layer")

    def broken(self: LoadedDrafts, draft: DraftSetup) -> object:
        drafter = made(self, draft)
        monkeypatch.setattr(drafter, "draft", fail)
        return drafter

    made = LoadedDrafts.drafter
    monkeypatch.setattr(LoadedDrafts, "drafter", broken)
    outcome = judge(FAMILIES["llama"], seed=0)
    why = "the drafter failed (no such layer); the answer went on without it"
    assert outcome.tally["near"]["identical"] == families.PROMPTS
    assert make_report([outcome]).faults == [
        f"llama with {draft}, {why}" for draft in families.DRAFTS for _ in range(2)
    ]


def test_near_ties_are_no_faults_and_differences_are() -> None:
    good = Counter(identical=2, tokens=8, passes=4)
    bad = Counter({"different": 1, "near-tie": 1, "tokens": 4, "passes": 4})
    report = make_report([FamilyOutcome(FAMILIES["phi"], tally={"lookup": good, "near": bad}, gaps=[0.5])])
    assert report.rows[1][3:] == ["2", "0", "1", "1", "1.00"]
    (fault,) = report.faults
    assert fault.startswith("1 answers of phi with near differ")
