"""The options that several commands of `outrider` share, and what they mean together.

Only typer is imported at once, so that --help is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from client.link import Access

Server = Annotated[str, typer.Option("--server", metavar="HOST:PORT", help="Where outriderd listens.")]
Token = Annotated[str | None, typer.Option("--token", envvar="OUTRIDER_TOKEN", help="The server's bearer token.")]
TokenFile = Annotated[Path | None, typer.Option("--token-file", help="A file that holds the bearer token.")]
Tls = Annotated[bool, typer.Option("--tls", help="Speak TLS, trusting the system's authorities.")]
TlsCa = Annotated[Path | None, typer.Option("--tls-ca", help="Speak TLS, trusting this authority (PEM).")]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert", help="This client's own certificate (PEM).")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The key of --tls-cert (PEM).")]

Draft = Annotated[str | None, typer.Option("--draft", help="Which of the server's drafts; its first by default.")]
Device = Annotated[str, typer.Option("--device", help="Where the drafter runs: cpu or cuda.")]
Dtype = Annotated[str, typer.Option("--dtype", help="What the drafter computes in: float32, bfloat16, ...")]
Threads = Annotated[int, typer.Option("--threads", min=0, help="Of torch, for the drafter; 0 leaves it to torch.")]
CacheDir = Annotated[Path | None, typer.Option("--cache-dir", envvar="OUTRIDER_CACHE", help="Where bundles are kept.")]

MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", min=1, help="The longest answer, in tokens.")]
Rule = Annotated[str, typer.Option("--rule", help="How a pass chooses tokens: greedy.")]
Idle = Annotated[str, typer.Option("--idle", help="What the server does while it awaits nodes: eager or patient.")]
PolicyName = Annotated[
    str, typer.Option("--policy", help="stream, or for comparison lockstep (rounds) or cloud (no drafting).")
]
PaceDraft = Annotated[
    float, typer.Option("--pace-draft", min=0, metavar="MS", help="Each drafted level takes at least this long.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def access_to(
    server: str,
    token: str | None,
    token_file: Path | None,
    tls: bool,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> "Access":
    """Raises MisuseError for an address or a token file that cannot be used."""
    from client.link import Access
    from common.address import parse_destination
    from common.protocol.errors import MisuseError
    from common.rpc.credentials import ClientTls, read_token

    address = parse_destination(server)
    if token and token_file:
        raise MisuseError("--token and --token-file say the same thing twice; give one of them")
    secured = tls or tls_ca or tls_cert or tls_key
    return Access(
        address,
        ClientTls(tls_ca, tls_cert, tls_key) if secured else None,
        read_token(token_file) if token_file else token,
    )
