"""Other servers as processes: where they are found, that they end, and what they say if they do not start."""

import socket
import sys
from pathlib import Path

import pytest

from client.errors import DemoError
from common.protocol.errors import MisuseError
from netem.experiments.others.llama_server import find_llama_server
from netem.experiments.others.other_servers import LlamaDraft, llama_command, running_server

HEALTHY = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *_): ...
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_without_llama_cpp_one_sentence_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MisuseError, match="no llama-server on PATH; build it"):
        find_llama_server(None)
    with pytest.raises(MisuseError, match="at /nowhere/llama-server"):
        find_llama_server(Path("/nowhere/llama-server"))
    assert find_llama_server(Path(sys.executable)) == Path(sys.executable)


def test_llama_cpp_drafts_only_where_a_draft_is_named():
    plain = llama_command(Path("llama-server"), Path("target.gguf"), None)
    drafted = llama_command(Path("llama-server"), Path("target.gguf"), LlamaDraft(Path("draft.gguf"), 8))
    assert drafted[: len(plain)] == plain
    more = drafted[len(plain) :]
    assert more[more.index("--spec-draft-model") + 1] == "draft.gguf"
    assert more[more.index("--spec-draft-n-max") + 1] == "8"


async def test_a_server_listens_until_its_block_ends():
    async with running_server([sys.executable, "-c", HEALTHY, "{port}"]) as address:
        socket.create_connection((address.host, address.port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=5)


async def test_the_last_words_of_one_that_does_not_start_are_told():
    with pytest.raises(DemoError, match="did not start: no such model"):
        async with running_server([sys.executable, "-c", "import sys; sys.exit('no such model')"]):
            pytest.fail("it has ended")
