"""The checks of a server that was reached: health, version, access, target and drafts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import torch
from grpc_health.v1 import health_pb2_grpc
from safetensors.torch import save_file

from client.cache.bundles import bundle_directory, pull
from client.cache.known_servers import remember
from client.doctor import draft_sizes, server_checks
from client.doctor.draft_sizes import Memory
from client.doctor.server_checks import check_server_description
from client.drafting.draft_loader import DraftChoice
from client.link.stream import Access
from common.address import Address
from common.bundle import BundleFile, describe_file, make_manifest
from common.programs import machine
from common.programs.findings import Finding, Verdict
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.description import FileRequest, ServerDescription
from common.rpc.service import OutriderService, register
from server.observe.health_service import HealthService
from server.security.call_gate import CallGate
from server.security.call_pools import CallPools
from server.security.tokens import read_tokens

CONTENT = b"weights"


class Server(OutriderService):
    def __init__(self, description: ServerDescription):
        self.description = description

    def describe(self, model: str) -> ServerDescription:
        return self.description

    async def fetch(self, request: FileRequest) -> AsyncGenerator[bytes]:
        yield CONTENT[request.offset :]

    def generate(self, messages: Any, metadata: Any, peer: str) -> AsyncGenerator[Any]:
        raise NotImplementedError


@pytest.fixture
def description(tmp_path) -> ServerDescription:
    (tmp_path / "weights").write_bytes(CONTENT)
    manifest = make_manifest("small", "lookup", "f" * 64, [describe_file("weights", tmp_path / "weights")])
    return ServerDescription(
        version=PROTOCOL_VERSION,
        release="9.9",
        model="big",
        fingerprint="f" * 64,
        vocab_size=300,
        context=2048,
        max_nodes=64,
        end_tokens=(0,),
        rules=("greedy",),
        idle_policies=("eager",),
        bundles=(manifest,),
    )


@asynccontextmanager
async def serving(
    description: ServerDescription, *, token_file: Path | None = None, draining: bool = False
) -> AsyncIterator[Address]:
    tokens = read_tokens(token_file, None)
    server = grpc.aio.server(interceptors=[CallGate(tokens, CallPools())])
    register(Server(description), server)
    health = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    if draining:
        health.set_draining()
    try:
        yield Address("127.0.0.1", port)
    finally:
        await server.stop(None)


async def found(address: Address, cache: Path, *, token: str | None = None, draft: str | None = None, weights="as-is"):
    choice = DraftChoice(draft, weights=weights)
    findings = await check_server_description(Access(address, token=token), choice, cache, Memory(0, 4))
    return {finding.subject: finding for finding in findings}


async def test_a_server_without_faults_and_a_bundle_that_is_not_here(description, tmp_path):
    async with serving(description) as address:
        findings = await found(address, tmp_path / "cache")
    assert {finding.verdict for finding in findings.values()} == {Verdict.OK}
    assert "round trip" in findings["health"].detail
    assert f"big at {address}, release 9.9, protocol {PROTOCOL_VERSION}" in findings["server"].detail
    assert findings["target"].detail == "big, fingerprint ffffffffffff"
    assert "draft small (lookup) is not here yet, 7 bytes are fetched when needed" in findings["bundle"].detail


async def test_auto_is_judged_by_what_it_takes_where_the_server_has_no_draft_model(description, tmp_path):
    async with serving(description) as address:
        findings = await found(address, tmp_path / "cache", draft="auto")
    assert "draft small (lookup) is not here yet" in findings["bundle"].detail


async def test_a_bundle_that_is_here_whole_or_damaged(description, tmp_path):
    (manifest,) = description.bundles
    async with serving(description) as address:
        async with Access(address).connect() as connection:
            await pull(connection, description, manifest, tmp_path, lambda _: None)
        assert (await found(address, tmp_path))["bundle"].detail == "draft small (lookup) is here and whole"
        (bundle_directory(tmp_path, manifest) / "weights").write_bytes(b"wEights")
        damaged = (await found(address, tmp_path))["bundle"]
    assert (damaged.verdict, damaged.fix) == (Verdict.FAIL, "run `outrider pull`")
    assert "weights is damaged" in damaged.detail


async def test_the_bundle_is_judged_in_the_mode_of_weights_that_is_chosen(description, tmp_path, monkeypatch):
    pinned = []

    async def pin(cache, address, description, manifest, model):
        pinned.append(manifest)

    monkeypatch.setattr(server_checks, "keep_pin", pin)
    files = description.bundles[0].files
    few = make_manifest("small", "lookup", "f" * 64, files, "int4")
    here = bundle_directory(tmp_path, few)
    async with serving(replace(description, quantised=(few,))) as address:
        async with Access(address).connect() as connection:
            await pull(connection, description, few, tmp_path, lambda _: None)
        assert (await found(address, tmp_path, weights="int4"))["bundle"].detail == (
            "draft small in int4 (lookup) is here and whole"
        )
        (here / "weights").write_bytes(b"wEights")
        assert (await found(address, tmp_path, weights="int4"))["bundle"].verdict is Verdict.FAIL
    assert pinned == [few, few]


async def test_each_bundle_of_drafts_that_draft_together_is_judged(description, tmp_path):
    files = description.bundles[0].files
    bundles = tuple(make_manifest(name, kind, "f" * 64, files) for name, kind in (("a", "eagle"), ("b", "independent")))
    async with serving(replace(description, bundles=bundles)) as address:
        async with Access(address).connect() as connection:
            await pull(connection, description, bundles[0], tmp_path, lambda _: None)
        findings = await check_server_description(Access(address), DraftChoice("a+b"), tmp_path, Memory(0, 4))
        missing = await found(address, tmp_path, draft="a+c")
    told = [each.detail for each in findings if each.subject == "bundle"]
    assert told[0] == "draft a (eagle) is here and whole"
    assert told[1].startswith("draft b (independent) is not here yet, 7 bytes")
    assert "'a' and 'c' cannot draft together" in missing["draft"].fix


async def test_a_disk_without_room_for_the_bundle(description, tmp_path, monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    large = make_manifest("large", "moa", "f" * 64, [BundleFile("weights", 3 * 10**9, "0" * 64)])
    async with serving(replace(description, bundles=(large,))) as address:
        bundle = (await found(address, tmp_path))["bundle"]
    assert bundle.verdict is Verdict.FAIL
    assert "has 1.0 GB free, but 3.0 GB are to come" in bundle.detail
    assert "--cache-dir" in bundle.fix


@pytest.mark.parametrize(("newer", "fix"), [(1, "upgrade this client"), (-1, "have its operator upgrade the server")])
async def test_another_version_of_the_protocol_says_which_end_is_older(description, tmp_path, newer, fix):
    async with serving(replace(description, version=PROTOCOL_VERSION + newer)) as address:
        findings = await found(address, tmp_path)
    assert list(findings) == ["health", "server"]
    assert (findings["server"].verdict, findings["server"].fix) == (Verdict.FAIL, fix)
    assert f"this client speaks protocol {PROTOCOL_VERSION}" in findings["server"].detail


async def test_a_token_that_is_missing_or_wrong(description, tmp_path):
    (tmp_path / "token").write_text("right\n")
    async with serving(description, token_file=tmp_path / "token") as address:
        missing = (await found(address, tmp_path))["token"]
        wrong = (await found(address, tmp_path, token="left"))["token"]
        right = await found(address, tmp_path, token="right")
    assert missing.detail == "the server asks for a bearer token, and none was given"
    assert wrong.detail == "the server asks for a bearer token, and the one that was given is wrong"
    assert "--token-file" in wrong.fix
    assert "token" not in right


async def test_a_server_that_is_going_away(description, tmp_path):
    async with serving(description, draining=True) as address:
        findings = await found(address, tmp_path)
    assert findings["health"].verdict is Verdict.FAIL
    assert "takes no new sessions" in findings["health"].detail


async def test_a_target_that_changed_since_it_was_last_used(description, tmp_path):
    async with serving(description) as address:
        before = make_manifest("small", "lookup", "e" * 64, description.bundles[0].files)
        remember(tmp_path, str(address), replace(description, fingerprint="e" * 64, bundles=(before,)))
        target = (await found(address, tmp_path))["target"]
    assert (target.verdict, target.fix) == (Verdict.WARN, "run `outrider pull`")
    assert "ffffffffffff, but eeeeeeeeeeee when it was last used" in target.detail


async def test_a_draft_that_the_server_has_not(description, tmp_path):
    async with serving(description) as address:
        draft = (await found(address, tmp_path, draft="eagle"))["draft"]
    assert draft.verdict is Verdict.FAIL
    assert "choose from: small" in draft.fix


async def test_a_target_that_a_server_of_one_target_has_not(description, tmp_path):
    """It describes its target whatever it is asked for."""
    async with serving(description) as address:
        findings = await check_server_description(Access(address), DraftChoice(model="small"), tmp_path, Memory(0, 4))
    assert (findings[-1].verdict, findings[-1].fix) == (
        Verdict.FAIL,
        "this server has no model 'small'; choose from: big",
    )


async def test_a_server_that_is_none_of_ours(tmp_path):
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    findings = await found(Address("127.0.0.1", port), tmp_path)
    await server.stop(None)
    assert findings["server"].verdict is Verdict.FAIL
    assert "is not an Outrider server" in findings["server"].fix


async def test_a_server_that_never_answers(description, tmp_path, monkeypatch):
    async def sleep(*_: object) -> Finding:
        raise TimeoutError

    monkeypatch.setattr(server_checks, "_check_health", sleep)
    async with serving(description) as address:
        assert "does not answer within" in (await found(address, tmp_path))["server"].detail


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    finding = machine.check_folder("cache", tmp_path / "file" / "in", 0, "choose another")
    assert (finding.verdict, finding.fix) == (Verdict.FAIL, "choose another")


async def test_a_link_that_is_too_slow_for_the_drafts_files_hides_no_other_finding(description, tmp_path, monkeypatch):
    async def never(connection: object, request: FileRequest, least: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(draft_sizes, "_fetch_begin", never)
    monkeypatch.setattr(draft_sizes, "_TIMEOUT_S", 0.0)
    (lookup,) = description.bundles
    files = [BundleFile("model.safetensors", 10**9, "0" * 64)]
    large = make_manifest("large", "independent", "f" * 64, files)
    async with serving(replace(description, bundles=(lookup, large))) as address:
        findings = await found(address, tmp_path, draft="small")
    assert {"server", "target", "bundle"} <= set(findings)
    assert findings["weights"].verdict is Verdict.WARN
    assert "the link is too slow" in findings["weights"].detail


async def test_what_each_draft_will_take_is_told_beforehand(description, tmp_path, monkeypatch):
    save_file({"lm_head.weight": torch.zeros(1000, 64)}, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    monkeypatch.setitem(globals(), "CONTENT", content)
    files = [describe_file("model.safetensors", tmp_path / "model.safetensors")]
    plain = make_manifest("small", "independent", "f" * 64, files)
    few = make_manifest("small", "independent", "f" * 64, [BundleFile("model.safetensors", 66_000, "0" * 64)], "int8")
    async with serving(replace(description, bundles=(plain,), quantised=(few,))) as address:
        told = {}
        for free in (0, 10**9, 100_000, 10):
            access = Access(address)
            found = await check_server_description(access, DraftChoice(), tmp_path / "cache", Memory(free, 4))
            (told[free],) = [each for each in found if each.subject == "weights"]
        found = await check_server_description(access, DraftChoice(weights="int8"), tmp_path, Memory(100_000, 4))
        (fits_in_int8,) = [each for each in found if each.subject == "weights"]
    assert "as-is 0.3 MB of memory, 0.3 MB to download in less than 1 s" in told[0].detail
    assert "int8 66.0 kB of memory, 66.0 kB to download in less than 1 s" in told[0].detail
    # Which the server does not offer.
    assert "int4 40.0 kB of memory, 0.3 MB to download in less than 1 s" in told[0].detail
    assert fits_in_int8.verdict is Verdict.OK
    assert [told[free].fix for free in told] == ["", "", "use --weights int8", told[10].fix]
    assert "choose another --draft" in told[10].fix


@pytest.mark.parametrize(("draft", "order"), [(None, ["first", "second"]), ("second", ["second", "first"])])
async def test_only_the_chosen_draft_is_told_of_in_full(description, tmp_path, monkeypatch, draft, order):
    save_file({"lm_head.weight": torch.zeros(1000, 64)}, tmp_path / "model.safetensors")
    monkeypatch.setitem(globals(), "CONTENT", (tmp_path / "model.safetensors").read_bytes())
    files = [describe_file("model.safetensors", tmp_path / "model.safetensors")]
    bundles = tuple(make_manifest(name, "independent", "f" * 64, files) for name in ("first", "second"))
    told, short = [], []
    async with serving(replace(description, bundles=bundles)) as address:
        for details, free in ((told, 10**9), (short, 100_000)):
            memory = Memory(free, 4)
            found = await check_server_description(Access(address), DraftChoice(draft), tmp_path / "cache", memory)
            details += [each.detail for each in found if each.subject == "weights"]
    assert told[0].startswith(f"{order[0]}: as-is 0.3 MB of memory, 0.3 MB to download in less than 1 s; int8 ")
    assert told[0].endswith("; 1.0 GB of memory are free")
    assert told[1:] == [f"{order[1]}: 0.3 MB of memory, 0.3 MB to download"]
    assert short[1:] == [f"{told[1]}; 0.1 MB of memory are free"], "else nobody knows why int8 is to be used"
