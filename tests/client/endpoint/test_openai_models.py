"""OpenAI's own client before a server with two targets: each request names its model, and gets that model's answer."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from common.models.checkpoint import load_tokenizer
from common.models.fingerprint import fingerprint
from tests.client.endpoint.serving import client_of, outrider_serve
from tests.daemon import outriderd
from tests.families import make_checkpoint
from tests.programs import command
from tests.server.reference import Reference

PROMPT, TOKENS = list(range(40, 80)), 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "one", "llama", seed=1)
    make_checkpoint(folder / "two", "qwen3", layers=2, hidden=36, seed=2)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    targets = ("--target", str(folder / "one"), "--target", f"second={folder / 'two'}", "--dtype", "float64")
    with outriderd(*targets, "--cache-tokens", "4096", "--cache-tokens", "1000") as (_, server):
        yield server


@pytest.fixture(scope="module")
def client(folder: Path, server: str) -> Iterator[openai.OpenAI]:
    with outrider_serve("--server", server, "--cache-dir", str(folder / "cache")) as address:
        yield client_of(address)


def test_all_models_are_listed_with_what_their_part_of_the_memory_holds(client: openai.OpenAI) -> None:
    lengths = {model.id: model.max_model_len for model in client.models.list()}  # type: ignore[attr-defined]
    assert lengths == {"one": 2048, "second": 1000, "outrider": 2048}


def test_each_model_writes_its_own_answer(client: openai.OpenAI, folder: Path) -> None:
    for model, checkpoint in (("one", "one"), ("second", "two"), ("outrider", "one")):
        answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=TOKENS)
        truth = Reference(folder / checkpoint).answer(PROMPT, TOKENS)
        assert answer.choices[0].text == load_tokenizer(folder / checkpoint).decode(truth, skip_special_tokens=True)
        assert answer.model == model


def test_a_model_that_is_not_there_is_told_with_those_that_are(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="'two' is not served here; ask for 'one' or 'second' or 'outrider'"):
        client.completions.create(model="two", prompt=PROMPT)


def test_what_was_fetched_is_listed_and_stays_while_it_is_in_use(client: openai.OpenAI, folder: Path) -> None:
    def outrider(*arguments: str) -> tuple[int, str]:
        run = (command("outrider"), *arguments, "--cache-dir", str(folder / "cache"))
        ended = subprocess.run(run, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    code, listed = outrider("list")
    assert code == 0
    assert [line.split()[0] for line in listed.splitlines()] == ["name", "one/lookup", "second/lookup"]
    refused = (2, "outrider: 'second/lookup' is in use; end the `outrider` that uses it first\n")
    assert outrider("rm", "second") == refused
    assert outrider("rm", "three")[0] == 2


def test_ollamas_list_tells_each_targets_fingerprint_and_family(client: openai.OpenAI, folder: Path) -> None:
    models = httpx2.get(str(client.base_url.join("/api/tags"))).json()["models"]
    one, two = (fingerprint(folder / name) for name in ("one", "two"))
    told = [(model["name"], model["digest"], model["details"]["family"]) for model in models]
    assert told == [("one", one, "llama"), ("second", two, "qwen3"), ("outrider", one, "llama")]


def test_ollamas_show_tells_the_context_that_the_server_has_room_for(client: openai.OpenAI) -> None:
    shown = httpx2.post(str(client.base_url.join("/api/show")), json={"model": "second"}).json()
    assert (shown["model_info"]["general.basename"], shown["model_info"]["qwen3.context_length"]) == ("second", 1000)
    assert shown["capabilities"][0] == "completion"
