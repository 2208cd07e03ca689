"""The options that several commands of `outrider` share, and what they mean together.

Nothing heavier than typer is imported at once, so that --help is quick.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Annotated

import typer

from client.link.offline import DEFAULT_LIMIT_TOKENS, DEFAULT_WAIT_S
from common.address import parse_destinations
from common.programs.machine import MOST_THREADS
from common.protocol.errors import MisuseError

if TYPE_CHECKING:
    from client.answering import AnswerOptions
    from client.link.offline import OfflineOptions
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


def _model(context: typer.Context, given: str) -> str:
    from common.programs.option_sets import alias_applied

    return alias_applied(context, "model", given)


def _models(context: typer.Context, given: list[str] | None) -> list[str]:
    from common.programs.option_sets import aliases_applied

    return aliases_applied(context, "model", given or [])


def _pulled(context: typer.Context, given: str) -> str:
    """Without a name, what the other commands use."""
    from common.programs.option_sets import alias_applied
    from common.programs.settings import value_of

    return alias_applied(context, "model", given or value_of(context, "run", "model"))


def _preset(context: typer.Context, given: str | None) -> str | None:
    from common.programs.option_sets import preset_applied

    return preset_applied(context, given)


def _known_presets(incomplete: str) -> list[str]:
    from common.programs.configuration import user_file
    from common.programs.option_sets import preset_names

    file = Path(os.environ.get("OUTRIDER_CONFIG") or user_file("config.toml"))
    return [name for name in preset_names(file) if name.startswith(incomplete)]


def _one_of(*values: str) -> Callable[[str], list[str]]:
    """Completes an option with these values."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


# Eager, because an alias and a preset stand for values of the other options.
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        callback=_preset,
        autocompletion=_known_presets,
        is_eager=True,
        help="Take the options of [presets.NAME] in the configuration file; flags hold before them.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        callback=_model,
        is_eager=True,
        help="Which of the server's models, or an alias of the configuration; the server's first by default.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        callback=_models,
        is_eager=True,
        help="Which of the server's models to load, may be repeated, or an alias of the configuration; all by default.",
    ),
]
PulledModel = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        callback=_pulled,
        is_eager=True,
        help="Which of the server's models, or an alias of the configuration; by default the one that `run` uses.",
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        help="Which of the model's draft models on the server; its first by default. `auto`: the fastest here, of all "
        "of them. Add +lookup, for text that repeats, or another kind without weights.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        autocompletion=_one_of("cpu", "cuda", "mps", "auto"),
        help="Where the drafter runs: cpu, cuda, mps (untested), or auto: a GPU if there is one.",
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype",
        autocompletion=_one_of("float32", "bfloat16", "float16", "float64"),
        help="The number format of the drafter: float32, bfloat16, ...",
    ),
]
WeightsMode = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="MODE",
        autocompletion=_one_of("as-is", "int8", "int4"),
        help="Weights of the draft model: as-is, or int8 or int4 for less memory.",
    ),
]
Threads = Annotated[int, typer.Option("--threads", min=0, max=MOST_THREADS, help="Torch threads; 0 for the default.")]
Layers = Annotated[
    int | None,
    typer.Option("--layers", min=0, metavar="N", help="Last target layers to run locally; chosen by speed if absent."),
]
StateDtype = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DTYPE",
        autocompletion=_one_of("int8", "int4", "int3", "float16"),
        help="How the server sends draft state: int8, int4, int3 or float16.",
        show_default="the draft model's own",
    ),
]
CacheDir = Annotated[Path | None, typer.Option("--cache-dir", envvar="OUTRIDER_CACHE", help="Where bundles are kept.")]

MaxNewTokens = Annotated[
    int, typer.Option("--max-new-tokens", min=1, max=(1 << 31) - 1, help="The longest answer, in tokens.")
]
Temperature = Annotated[float, typer.Option("--temperature", help="0 takes the likeliest token, more draws tokens.")]
TopK = Annotated[int, typer.Option("--top-k", help="Draw from this many of the likeliest tokens; 0 from all.")]
TopP = Annotated[float, typer.Option("--top-p", help="Draw from the likeliest tokens that together reach this share.")]
MinP = Annotated[
    float, typer.Option("--min-p", help="Drop tokens less likely than this fraction of the likeliest one.")
]
RepetitionPenalty = Annotated[
    float, typer.Option("--repetition-penalty", help="Above 1 penalises tokens that already occurred; 1 is off.")
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", help="Random seed; a fresh one if absent. With --rule coupled it fixes the answer."),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        autocompletion=_one_of("greedy", "coupled", "speculative", "typical"),
        help="How a pass chooses tokens: greedy, coupled, speculative, or typical (lossy); by default greedy at "
        "temperature 0 and coupled above.",
    ),
]
Stop = Annotated[
    list[str] | None, typer.Option("--stop", metavar="TEXT", help="End before this text; may be repeated.")
]
Idle = Annotated[
    str,
    typer.Option(
        "--idle",
        autocompletion=_one_of("auto", "assist", "eager", "patient"),
        help="When the server verifies: at once (eager), after waiting for drafts (patient), drafting too (assist), or "
        "auto; by default the server's own.",
    ),
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        autocompletion=_one_of("stream", "lockstep", "cloud"),
        help="stream, or for comparison lockstep (rounds) or cloud (no drafting).",
    ),
]
PaceDraft = Annotated[
    float, typer.Option("--pace-draft", min=0, metavar="MS", help="Simulated minimum duration of a drafted tree level.")
]
ViaServe = Annotated[
    bool,
    typer.Option("--via-serve/--no-via-serve", help="Use your running `outrider serve`, which has the models loaded."),
]
PrivateFile = Annotated[
    Path | None,
    typer.Option(
        "--private-file", metavar="FILE", help="A text to add to the prompt that must not leave this machine."
    ),
]
System = Annotated[
    str,
    typer.Option(
        "--system", metavar="TEXT", show_default=False, help="A system prompt, which the chat template puts first."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

OfflineLimit = Annotated[
    int, typer.Option("--offline-limit", min=0, metavar="TOKENS", help="Most tokens to draft while offline.")
]
OfflineWait = Annotated[
    float,
    typer.Option(
        "--offline-wait",
        min=0,
        metavar="SECONDS",
        help="How long to wait for the server when the offline draft has ended; longer while a long prompt is sent.",
    ),
]
OnReconnect = Annotated[
    str,
    typer.Option(
        "--on-reconnect",
        autocompletion=_one_of("verify", "keep"),
        help="What to do with text drafted offline: verify it, or keep it as it is.",
    ),
]
Markdown = Annotated[
    bool, typer.Option("--markdown/--no-markdown", help="Render the Markdown of a whole answer, on a terminal.")
]

_FRESH_SEED_BITS = 63
_KEEP, _VERIFY = "keep", "verify"


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
            raise MisuseError("--token and --token-file say the same thing twice; give one of them")
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


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What is asked of an answer; each field is an option."""

    max_new_tokens: MaxNewTokens = 512
    temperature: Temperature = 0.0
    top_k: TopK = 0
    top_p: TopP = 1.0
    min_p: MinP = 0.0
    repetition_penalty: RepetitionPenalty = 1.0
    seed: Seed = None
    rule: Rule = None
    stop: Stop = None
    idle: Idle = ""
    policy: PolicyName = "stream"

    def options(self, pace: float = 0.0) -> "AnswerOptions":
        """With a fresh seed if one is needed and none was given; `pace` is in seconds.

        Raises MisuseError for what cannot be asked.
        """
        from client.answering import AnswerOptions, find_policy
        from client.text import valid_text
        from common.protocol.rules import default_rule
        from common.protocol.sampling import Sampling

        try:
            stop = tuple(map(valid_text, self.stop or ()))
        except UnicodeError as error:
            raise MisuseError("a stop string is not valid text; give it in UTF-8") from error
        fresh_seed = randbits(_FRESH_SEED_BITS) if self.temperature > 0 else 0
        return AnswerOptions(
            find_policy(self.policy),
            self.max_new_tokens,
            default_rule(self.temperature) if self.rule is None else self.rule,
            self.idle,
            pace,
            Sampling(
                self.temperature,
                self.top_k,
                self.top_p,
                self.min_p,
                self.repetition_penalty,
                fresh_seed if self.seed is None else self.seed,
            ),
            stop,
        )


@dataclass(frozen=True, slots=True)
class OfflineRequest:
    """What is to be done while the server is out of reach; each field is an option."""

    offline_limit: OfflineLimit = DEFAULT_LIMIT_TOKENS
    offline_wait: OfflineWait = DEFAULT_WAIT_S
    on_reconnect: OnReconnect = _VERIFY

    def options(self) -> "OfflineOptions":
        """Raises MisuseError for an unknown wish."""
        from client.link.offline import OfflineOptions

        if self.on_reconnect not in (_VERIFY, _KEEP):
            raise MisuseError(f"--on-reconnect is {_VERIFY} or {_KEEP}, not '{self.on_reconnect}'")
        return OfflineOptions(self.offline_limit, self.offline_wait, self.on_reconnect == _KEEP)


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """What a conversation begins with; each field is an option."""

    system: System = ""


@dataclass(frozen=True, slots=True)
class ScreenRequest:
    """How answers are shown; each field is an option."""

    markdown: Markdown = True
