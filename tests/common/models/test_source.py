"""Where a checkpoint's files are: a refusal by the hub is one sentence, and what its cache holds needs no network."""

import errno
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from common.models.errors import CheckpointError, HubError
from common.models.source import CONFIG, checkpoint_directory, refuse_pickled, weight_files
from common.protocol.errors import MisuseError
from tests.families import make_checkpoint
from tests.hub import put_into_cache

_ANSWERS = {"gated": (403, "GatedRepo"), "unknown": (404, "RepoNotFound"), "broken": (500, "")}


class Hub(BaseHTTPRequestHandler):
    """Refuses every repository, for the reason given as its name."""

    def do_GET(self) -> None:
        status, reason = next(answer for name, answer in _ANSWERS.items() if f"/{name}/" in self.path)
        self.send_response(status)
        self.send_header("X-Error-Code", reason)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "gated",
            "acme/gated is gated; accept its terms on its page on the hub, then log in with `hf auth login` or set "
            "HF_TOKEN",
        ),
        (
            "unknown",
            "acme/unknown is neither a directory nor on the hub; check the name, and if it is private, log in with "
            "`hf auth login` or set HF_TOKEN",
        ),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(hub, name, says):
    with pytest.raises(CheckpointError, match=says):
        checkpoint_directory(f"acme/{name}", with_weights=True)


def test_a_hub_that_is_out_of_order_is_nobodys_mistake(hub):
    """So that a server which is started then is started again."""
    says = "acme/broken is not a directory and could not be fetched from the hub"
    with pytest.raises(HubError, match=says) as raised:
        checkpoint_directory("acme/broken", with_weights=True)
    assert not isinstance(raised.value, MisuseError)


def _failing_with(error: Exception) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "it failed"), CheckpointError),
        (OSError("IO error: No space left on device (os error 28)"), CheckpointError),
        (RuntimeError('Os { code: 122, kind: QuotaExceeded, message: "Disk quota exceeded" }'), CheckpointError),
        (OSError(errno.ENETUNREACH, "it failed"), HubError),
        (RuntimeError("Task error: it failed"), HubError),
        (httpx2.ProxyError("407 Proxy Authentication Required"), HubError),
    ],
    ids=["full", "full to hf_xet", "a task's quota", "no network", "a task's failure", "a proxy that refuses"],
)
def test_a_disk_that_is_full_is_not_a_hub_that_is_away(monkeypatch, error, kind):
    monkeypatch.setattr("huggingface_hub.snapshot_download", _failing_with(error))
    with pytest.raises(kind):
        checkpoint_directory("acme/model", with_weights=True)


def _fetched(monkeypatch: pytest.MonkeyPatch, directory: Path, listing: Callable[..., object]) -> Path:
    """Has the hub give this directory, with a configuration and no weights, for each name."""
    (directory / CONFIG).write_text("{}")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(directory))
    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_files", listing)
    return checkpoint_directory("acme/heads", with_weights=True)


@pytest.mark.parametrize("name", ["medusa_lm_head.pt", "pytorch_model-00001-of-00002.bin"])
def test_weights_that_the_hub_has_as_pickle_alone_are_told_with_how_to_convert_them(monkeypatch, tmp_path, name):
    with pytest.raises(CheckpointError) as told:
        _fetched(monkeypatch, tmp_path, lambda *_: [CONFIG, name])
    sentence = str(told.value)
    assert sentence.startswith(f"acme/heads holds its weights as {name}, which can run code when it is read; fetch it ")
    (tmp_path / name).touch()
    with pytest.raises(CheckpointError) as told_there:
        refuse_pickled(tmp_path)
    assert sentence.split("`")[1] == "hf download acme/heads --local-dir DIR"
    assert sentence.split("`")[3] == str(told_there.value).split("`")[1]


@pytest.mark.parametrize(
    "listing",
    [
        lambda *_: [CONFIG, "optimizer.pt", "consolidated.safetensors"],
        lambda *_: [CONFIG, "original/old.pth"],
        _failing_with(httpx2.ConnectError("no network")),
    ],
    ids=["others too", "in a folder", "no network"],
)
def test_what_is_not_known_to_be_pickle_alone_is_not_called_so(monkeypatch, tmp_path, listing):
    assert _fetched(monkeypatch, tmp_path, listing) == tmp_path


def test_what_the_hubs_cache_holds_is_found_without_a_network(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    put_into_cache(tmp_path / "home", "acme/big", make_checkpoint(tmp_path / "big", "qwen3", sharded=True))
    directory = checkpoint_directory("acme/big", with_weights=True)
    assert len(weight_files(directory)) > 1
    assert checkpoint_directory("acme/big", with_weights=False) == directory


@pytest.mark.parametrize("name", ["model.gguf", "model.Q4_K_M.GGUF", "folder", "acme/big-GGUF"])
def test_gguf_is_told_as_such_and_with_what_is_read(monkeypatch, tmp_path, name):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    (tmp_path / "model.gguf").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "big.gguf").touch()
    put_into_cache(tmp_path / "home", "acme/big-GGUF", tmp_path / "folder")
    asked = name if name.startswith("acme") else str(tmp_path / name)
    with pytest.raises(CheckpointError, match="GGUF") as told:
        checkpoint_directory(asked, with_weights=False)
    assert "is not read here; give the model that it was made from" in str(told.value)
    assert "safetensors" in str(told.value)


def test_an_empty_name_is_not_the_directory_that_the_program_was_started_in(tmp_path, monkeypatch):
    make_checkpoint(tmp_path, "llama")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"^the checkpoint's name is empty; give a directory or a hub id$"):
        checkpoint_directory("", with_weights=False)
