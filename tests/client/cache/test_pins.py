"""What a server offers is pinned at its first use; changed targets and drafts are refused until accepted."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from client.assembly import client_for
from client.cache.known_servers import recall
from client.cache.pins import keep_pin
from client.commands.pull import pull
from client.drafting.draft_loader import DraftChoice
from client.errors import BundleError
from client.link.stream import Access
from client.terminal.progress import download_bar
from common.address import Address, parse_address
from common.bundle import BundleFile, BundleManifest, make_manifest
from common.protocol.messages import PROTOCOL_VERSION
from common.rpc.description import ServerDescription
from tests.families import make_checkpoint
from tests.server.harness import options_for, running, with_access

THERE, ELSEWHERE = Address("gpu.example.org", 7070), Address("gpu.example.org", 7071)


def draft(name: str, content: str = "0") -> BundleManifest:
    return make_manifest(name, "moa", "f" * 64, [BundleFile("config.json", 3, content * 64)])


MOA, EAGLE, RETRAINED, ADDED = draft("moa"), draft("eagle"), draft("moa", "1"), draft("added")
SAID = ServerDescription(PROTOCOL_VERSION, "0.1", "llama", "f" * 64, 300, 2048, 512, (), (), (), (MOA, EAGLE))
CHANGED = replace(SAID, bundles=(RETRAINED, EAGLE, ADDED))
ANOTHER = replace(SAID, model="qwen", fingerprint="e" * 64)


async def test_the_first_time_is_trusted_and_so_is_the_same_again(tmp_path):
    for manifest in (MOA, MOA, EAGLE):
        await keep_pin(tmp_path, THERE, SAID, manifest)
    await keep_pin(tmp_path, replace(THERE, host="GPU.example.org"), SAID, MOA)


async def test_another_draft_of_that_name_is_refused_until_it_is_accepted(tmp_path):
    await keep_pin(tmp_path, THERE, SAID, EAGLE)
    for _ in range(2):
        with pytest.raises(BundleError) as refused:
            await keep_pin(tmp_path, THERE, CHANGED, RETRAINED)
    assert str(refused.value) == (
        f"gpu.example.org:7070 hands out another draft 'moa', {RETRAINED.id[:12]}, than when this machine first used "
        f"it, {MOA.id[:12]}; if its operator has trained it anew, accept it with `outrider pull --server "
        "gpu.example.org:7070 --trust-new`"
    )
    await keep_pin(tmp_path, THERE, CHANGED, EAGLE)  # which is what it was
    await keep_pin(tmp_path, ELSEWHERE, CHANGED, RETRAINED)
    await keep_pin(tmp_path, THERE, CHANGED, RETRAINED, trust_new=True)
    for manifest in CHANGED.bundles:
        await keep_pin(tmp_path, THERE, CHANGED, manifest)
    with pytest.raises(BundleError, match="another draft 'moa'"):
        await keep_pin(tmp_path, THERE, SAID, MOA)


async def test_a_draft_of_another_name_gets_round_nothing(tmp_path):
    await keep_pin(tmp_path, THERE, SAID, MOA)
    with pytest.raises(BundleError, match="hands out a draft 'added' that it did not have"):
        await keep_pin(tmp_path, THERE, CHANGED, ADDED)
    await keep_pin(tmp_path, THERE, CHANGED, ADDED, trust_new=True)
    await keep_pin(tmp_path, THERE, CHANGED, RETRAINED)


async def test_another_target_is_refused_until_it_is_accepted(tmp_path):
    await keep_pin(tmp_path, THERE, SAID, MOA)
    with pytest.raises(BundleError) as refused:
        await keep_pin(tmp_path, THERE, ANOTHER, MOA)
    assert str(refused.value) == (
        "gpu.example.org:7070 decides with another target, qwen (eeeeeeeeeeee), than when this machine first used it, "
        "llama (ffffffffffff); if its operator says so too, accept it with `outrider pull --server "
        "gpu.example.org:7070 --trust-new`"
    )
    await keep_pin(tmp_path, THERE, ANOTHER, MOA, trust_new=True)
    await keep_pin(tmp_path, THERE, ANOTHER, EAGLE)
    with pytest.raises(BundleError, match="another target"):
        await keep_pin(tmp_path, THERE, SAID, MOA)


async def test_a_target_of_another_name_is_the_same_target(tmp_path):
    await keep_pin(tmp_path, THERE, SAID, MOA)
    await keep_pin(tmp_path, THERE, replace(SAID, model="renamed"), MOA)


async def test_a_target_that_is_asked_for_by_name_is_pinned_by_that_name(tmp_path):
    await keep_pin(tmp_path, THERE, SAID, MOA)
    await keep_pin(tmp_path, THERE, ANOTHER, MOA, ANOTHER.model)
    changed = replace(ANOTHER, fingerprint="d" * 64)
    with pytest.raises(BundleError, match=r"another target.*`outrider pull qwen --server gpu.example.org:7070 --"):
        await keep_pin(tmp_path, THERE, changed, MOA, ANOTHER.model)
    await keep_pin(tmp_path, THERE, SAID, MOA)


async def test_the_first_target_is_known_by_its_name_too(tmp_path):
    await keep_pin(tmp_path, THERE, SAID, MOA)
    with pytest.raises(BundleError, match="another target"):
        await keep_pin(tmp_path, THERE, replace(ANOTHER, model=SAID.model), MOA, SAID.model)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_what_listens_on_this_machine_is_left_alone(tmp_path, host):
    for description, manifest in ((SAID, MOA), (CHANGED, RETRAINED), (ANOTHER, MOA)):
        await keep_pin(tmp_path, Address(host, 7070), description, manifest)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": {"model": "m", "fingerprint": "f"}}', "\xff"])
async def test_a_broken_file_stops_everything(tmp_path, content):
    (tmp_path / "pins.json").write_text(content, encoding="latin-1")
    with pytest.raises(BundleError, match=r"pins\.json, which remembers what servers hand out, is broken"):
        await keep_pin(tmp_path, THERE, SAID, MOA)


async def test_what_cannot_be_remembered_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BundleError, match=r"cannot be (read|remembered)"):
        await keep_pin(tmp_path / "file", THERE, SAID, MOA)


async def test_clients_that_come_at_once_forget_nobody(tmp_path):
    servers = [Address("gpu.example.org", port) for port in range(7000, 7040)]
    await asyncio.gather(*(keep_pin(tmp_path, server, SAID, MOA) for server in servers))
    for server in servers:
        with pytest.raises(BundleError):
            await keep_pin(tmp_path, server, ANOTHER, MOA)


async def test_a_server_that_changes_gives_nothing_away_before_it_is_accepted(tmp_path: Path):
    """Over real connections: a draft is trained again, then the target is replaced."""
    target = make_checkpoint(tmp_path / "target", "llama", seed=1)
    first = make_checkpoint(tmp_path / "a" / "small", "llama", layers=1, seed=2)
    trained_anew = make_checkpoint(tmp_path / "b" / "small", "llama", layers=1, seed=3)
    exchanged = make_checkpoint(tmp_path / "other-target", "llama", seed=4)
    cache = tmp_path / "cache"

    def bundles() -> set[str]:
        return {file.parent.name for file in cache.glob("bundles/*/bundle.json")}

    async with running(options_for(target, first)) as server:
        listen = parse_address(server.address)
        # A host name, of which nothing is known: another name of this machine.
        access = Access(Address("LOCALHOST", listen.port))
        async with client_for(access, DraftChoice(), cache, download_bar):
            known = bundles()
        said = recall(cache, str(access.address))
        assert len(known) == 1
    for options, sentence in (
        (options_for(target, trained_anew), "hands out another draft 'small'"),
        (options_for(exchanged, trained_anew), "decides with another target, other-target"),
    ):
        async with running(with_access(options, listen=listen)):
            with pytest.raises(BundleError, match=sentence):
                async with client_for(access, DraftChoice(), cache, download_bar):
                    raise AssertionError("the server was believed")
            with pytest.raises(BundleError, match=sentence):
                await pull(access, DraftChoice(), cache, trust_new=False)
            assert bundles() == known
            assert {each.name for each in (cache / "bundles").iterdir()} == known  # nor an empty directory
            assert recall(cache, str(access.address)) == said
            await pull(access, DraftChoice(), cache, trust_new=True)
            async with client_for(access, DraftChoice(), cache, download_bar):
                assert len(bundles()) == len(known) + 1
            known, said = bundles(), recall(cache, str(access.address))


def in_few_bits(weights: str, config: str = "0") -> BundleManifest:
    """`MOA` in int8, with files of these contents."""
    files = [BundleFile("config.json", 3, config * 64), BundleFile("model.safetensors", 2, weights * 64)]
    return make_manifest("moa", "moa", "f" * 64, files, "int8")


PLAIN = make_manifest("moa", "moa", "f" * 64, [*MOA.files, BundleFile("model.safetensors", 9, "8" * 64)])


async def test_a_weights_mode_is_pinned_when_it_is_first_used(tmp_path):
    first, other = in_few_bits("2"), in_few_bits("3")
    said = replace(SAID, bundles=(PLAIN,))
    await keep_pin(tmp_path, THERE, said, PLAIN)
    for manifest in (first, first, PLAIN):
        await keep_pin(tmp_path, THERE, replace(said, quantised=(first,)), manifest)
    with pytest.raises(BundleError, match="hands out another draft 'moa'"):
        await keep_pin(tmp_path, THERE, replace(said, quantised=(other,)), other)


@pytest.mark.parametrize(
    ("bundle", "few"),
    [(PLAIN, in_few_bits("2", config="1")), (MOA, in_few_bits("2")), (RETRAINED, in_few_bits("2", config="1"))],
)
async def test_a_new_weights_mode_differs_in_its_weights_alone(tmp_path, bundle, few):
    """Another configuration, another file, and one that fits what is offered now and was not pinned."""
    first = MOA if bundle is RETRAINED else bundle
    await keep_pin(tmp_path, THERE, replace(SAID, bundles=(first,)), first)
    with pytest.raises(BundleError, match="hands out another draft 'moa'"):
        await keep_pin(tmp_path, THERE, replace(SAID, bundles=(bundle,), quantised=(few,)), few)


async def test_a_further_target_of_a_known_server_is_told_once(tmp_path, caplog):
    await keep_pin(tmp_path, THERE, SAID, MOA)
    await keep_pin(tmp_path, THERE, SAID, MOA, "llama")
    await keep_pin(tmp_path, ELSEWHERE, ANOTHER, MOA, "qwen")  # a server that is new itself
    assert not caplog.messages
    for _ in range(2):
        await keep_pin(tmp_path, THERE, ANOTHER, MOA, "qwen")
    assert caplog.messages == [
        "gpu.example.org:7070 has another target, qwen (eeeeeeeeeeee), which is new to this machine"
    ]
