"""Starts, speaks and ends as `outriderd serve` does, and serves nothing. Standard library only, so that it starts at
once.

`fail` among its arguments ends it with code 2, and with `deaf` it does not end when it is asked to.
"""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

PAGE = b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 0\n"


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def end(number: int, frame: object) -> None:
    say("summary {}")
    os._exit(0)


def main() -> None:
    given = sys.argv[1:]
    if "fail" in given:
        say("outriderd: there is no such target")
        sys.exit(2)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in given else end)
    server = HTTPServer(("127.0.0.1", 0), Metrics)
    say(f"given {' '.join(given)}; store {os.environ.get('OUTRIDERD_FLEET_STORE')}")
    say(f"ready on {given[given.index('--listen') + 1]}")
    say(f"metrics on http://127.0.0.1:{server.server_port}/metrics")
    server.serve_forever()


main()
