"""The options that several commands of `outrider` share, and what they mean together.

Nothing heavier than typer is imported at once, so that --help is quick.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
Insecure = Annotated[bool, typer.Option("--insecure", help="Send prompts in plain text off this machine.")]

Draft = Annotated[str | None, typer.Option("--draft", help="Which of the server's drafts; its first by default.")]
Device = Annotated[str, typer.Option("--device", help="Where the drafter runs: cpu or cuda.")]
Dtype = Annotated[str, typer.Option("--dtype", help="What the drafter computes in: float32, bfloat16, ...")]
Threads = Annotated[int, typer.Option("--threads", min=0, help="Of torch, for the drafter; 0 leaves it to torch.")]
Layers = Annotated[
    int, typer.Option("--layers", min=0, metavar="N", help="How many of the target's last layers the draft runs here.")
]
StateDtype = Annotated[
    str, typer.Option("--state", metavar="DTYPE", help="How the server sends draft state: int8 or float16.")
]
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


@dataclass(frozen=True, slots=True)
class Credentials:
    """How a server is spoken to and who we are; each field is an option."""

    token: Token = None
    token_file: TokenFile = None
    tls: Tls = False
    tls_ca: TlsCa = None
    tls_cert: TlsCert = None
    tls_key: TlsKey = None
    insecure: Insecure = False

    def access_to(self, server: str) -> "Access":
        """Raises MisuseError for an address or a token file that cannot be used, and for plaintext off loopback."""
        from client.link import Access
        from common.address import parse_destination
        from common.protocol.errors import MisuseError
        from common.rpc.credentials import ClientTls, read_token

        address = parse_destination(server)
        if self.token and self.token_file:
            raise MisuseError("--token and --token-file say the same thing twice; give one of them")
        secured = self.tls or self.tls_ca or self.tls_cert or self.tls_key
        if not (secured or address.is_loopback or self.insecure):
            raise MisuseError(
                f"prompts would travel to {address} in plain text; use --tls or --tls-ca, or allow it with --insecure"
            )
        return Access(
            address,
            ClientTls(self.tls_ca, self.tls_cert, self.tls_key) if secured else None,
            read_token(self.token_file) if self.token_file else self.token,
        )


def with_credentials(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with the options of `Credentials` in the place of its parameter `credentials`."""
    options = signature(Credentials).parameters
    others = [parameter for parameter in signature(command).parameters.values() if parameter.name != "credentials"]

    @wraps(command)
    def folded(**given: Any) -> None:
        credentials = Credentials(**{name: given.pop(name) for name in options})
        command(**given, credentials=credentials)

    vars(folded)["__signature__"] = Signature([*others, *options.values()])
    return folded
