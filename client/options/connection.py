"""How a server is reached, and who asks."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.address import parse_destinations
from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    from client.link.stream import Access


def _server(context: typer.Context, given: str) -> str:
    try:
        if not context.resilient_parsing:
            parse_destinations(given)
    except MisuseError as error:
        raise typer.BadParameter(str(error)) from error  # which is told with what gave the value
    return given


Server = Annotated[
    str,
    typer.Option(
        "--server", metavar="HOST:PORT", callback=_server, help="Where outriderd listens; commas between replicas."
    ),
]
Token = Annotated[str | None, typer.Option("--token", envvar="OUTRIDER_TOKEN", help="The server's bearer token.")]
TokenFile = Annotated[Path | None, typer.Option("--token-file", help="A file that holds the bearer token.")]
Tls = Annotated[bool, typer.Option("--tls", help="Speak TLS, trusting the system's authorities.")]
TlsCa = Annotated[Path | None, typer.Option("--tls-ca", help="Speak TLS, trusting this authority (PEM).")]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert", help="This client's own certificate (PEM).")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="The key of --tls-cert (PEM).")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Send prompts in plain text off this machine.")]
FollowReplicas = Annotated[
    bool,
    typer.Option(
        "--follow-replicas",
        help="Send prompts and token to whatever replicas the server lists; without this only with --tls-ca.",
    ),
]


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
    follow_replicas: FollowReplicas = False

    def access_to(self, server: str) -> "Access":
        """Raises MisuseError for addresses or a token that cannot be used, and for plaintext off loopback."""
        from client.link.stream import Access
        from common.rpc.credentials import ClientTls, read_token, warn_of_readable

        addresses = parse_destinations(server)
        if self.token == "":  # an empty variable counts as unset
            raise MisuseError("--token is empty; give what the server's operator issued, or leave it out")
        if self.token and self.token_file:
            raise MisuseError("--token (or OUTRIDER_TOKEN) and --token-file say the same thing twice; give one of them")
        secured = self.tls or self.tls_ca or self.tls_cert or self.tls_key
        exposed = [] if secured or self.insecure else [each for each in addresses if not each.is_loopback]
        if exposed:
            raise MisuseError(
                f"prompts would travel to {exposed[0]} in plain text; use --tls or --tls-ca, or allow it with "
                "--insecure"
            )
        warn_of_readable(self.token_file, self.tls_key)
        return Access(
            addresses[0],
            ClientTls(self.tls_ca, self.tls_cert, self.tls_key) if secured else None,
            read_token(self.token_file) if self.token_file else self.token,
            addresses[1:],
            follow_replicas=self.follow_replicas,
        )
