"""The systems that are compared: their servers, and each behind a link of its own.

Knows how each is started and asked. It may not know prompts, tables or outages.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from client.answering import AnswerOptions
from client.assembly import Client, client_for
from client.demo.children import Child, running
from client.drafting.draft_loader import DraftChoice
from client.link.shared_connection import SharedConnection
from client.link.stream import Access
from common.address import parse_destination
from common.drafters.drafter import Drafter
from common.protocol.errors import OutriderError
from common.stated_costs import HALF_THE_CORES
from netem.experiments.others.completions import CompletionServer, client_of
from netem.experiments.others.heard import Heard, OtherSystem
from netem.experiments.others.other_servers import LlamaDraft, generate_command, llama_command, running_server
from netem.experiments.quiet import no_bar
from netem.experiments.speed.systems import AUTO, CLOUD_DECODING, EAGER, INDEPENDENT, System

LLAMA, LLAMA_DRAFTED = "llama-server", "llama-server, draft"
GENERATE, ASSISTED = "generate", "assisted generation"
EAGER_MOA = "eager, moa"
OURS: Mapping[str, System] = {
    CLOUD_DECODING.name: CLOUD_DECODING,
    EAGER_MOA: EAGER,
    "auto, moa": AUTO,
    "eager, independent": System("eager, independent", EAGER.policy, EAGER.idle, INDEPENDENT),
}
"""By name, Outrider's own; `auto` is what a user has by default. `independent` is llama.cpp's and transformers' draft
model too."""

OTHERS = (LLAMA, LLAMA_DRAFTED, GENERATE, ASSISTED)
READ_TIMEOUT_S = 10.0
"""How long a client waits for the next piece of an answer: as long as Outrider's by default. OpenAI's waits 600 s."""


@dataclass(frozen=True, slots=True)
class ComparedModels:
    """target, draft: checkpoints. drafts: of Outrider's clients. program: llama.cpp's server. target_gguf, draft_gguf:
    the first two as GGUF files."""

    target: Path
    draft: Path
    drafts: Sequence[Path]
    program: Path
    target_gguf: Path
    draft_gguf: Path


@dataclass(frozen=True, slots=True)
class OutriderSystem:
    """One client with its drafter. connection: the one that its conversations share, as those of `outrider serve`
    do."""

    client: Client
    connection: SharedConnection
    drafter: Drafter | None
    system: System

    async def connect(self) -> None:
        """Its connection is kept while the client runs."""

    async def ask(self, prompt: Sequence[int], new_tokens: int, heard: Heard) -> None:
        options: AnswerOptions = self.system.options(new_tokens, level_seconds=0.0)
        converse = self.client.converse(options.policy, self.drafter, options.pace, shared_connection=self.connection)
        async with converse as conversation:
            try:
                answer = await conversation.answer(prompt, options.settings(), heard.hear)
            except OutriderError as error:
                heard.error = str(error)
            else:
                heard.passes, heard.drafted = answer.stats.passes, answer.levels
                heard.error, heard.end = answer.failure or answer.note, answer.finish_reason
            heard.finish()


@dataclass(frozen=True, slots=True)
class LinkedSystem:
    """A system behind a link of its own, which alone a cut of that link concerns."""

    system: OtherSystem
    link: Child


@dataclass(frozen=True, slots=True)
class Servers:
    """The addresses of servers, without a link: by name those of others, and Outrider's."""

    others: Mapping[str, str]
    outrider: str


@asynccontextmanager
async def running_servers(models: ComparedModels, most_drafted: int) -> AsyncIterator[Servers]:
    """most_drafted: tokens that llama.cpp drafts for a pass. Raises OutriderError where a server does not start."""
    ours = ["--target", str(models.target), "--threads", str(HALF_THE_CORES), "--listen", "127.0.0.1:0"]
    ours += ["--share-prefixes", "never"]  # as llama.cpp's are asked to cache no prompt
    ours += [argument for draft in models.drafts for argument in ("--draft", str(draft))]
    commands = {
        LLAMA: llama_command(models.program, models.target_gguf, None),
        LLAMA_DRAFTED: llama_command(models.program, models.target_gguf, LlamaDraft(models.draft_gguf, most_drafted)),
        GENERATE: generate_command(models.target, None),
        ASSISTED: generate_command(models.target, models.draft),
    }
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(running("outriderd", "serve", *ours))
        others = {
            name: str(await stack.enter_async_context(running_server(command))) for name, command in commands.items()
        }
        yield Servers(others, await own.ready())


@asynccontextmanager
async def linked_systems(
    servers: Servers, profile: str, names: Sequence[str], cache: Path
) -> AsyncIterator[dict[str, LinkedSystem]]:
    """Each system of `names` behind its own link over tun."""
    async with AsyncExitStack() as stack:
        links = {}
        for name in names:
            server = servers.others.get(name, servers.outrider)
            proxy = ("proxy", profile, "--to", server, "--backend", "tun")
            links[name] = await stack.enter_async_context(running("outrider-lab", *proxy))
        linked: dict[str, LinkedSystem] = {}
        for name, link in links.items():
            address = parse_destination(await link.ready())
            if name in servers.others:
                client = await stack.enter_async_context(client_of(address, READ_TIMEOUT_S))
                linked[name] = LinkedSystem(CompletionServer(client), link)
                continue
            system = OURS[name]
            draft = None if system.draft is None else system.draft.name
            choice = DraftChoice(draft, threads=HALF_THE_CORES)
            ours = await stack.enter_async_context(client_for(Access(address), choice, cache, no_bar))
            drafter = None if draft is None else ours.load_drafter()
            shared = await stack.enter_async_context(ours.share_connection())
            linked[name] = LinkedSystem(OutriderSystem(ours, shared, drafter, system), link)
        yield linked
