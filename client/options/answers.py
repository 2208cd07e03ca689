"""What is asked, and how an answer is chosen and drafted."""

from dataclasses import dataclass
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Annotated

import typer

from common.programs.command_line import one_of
from common.protocol.messages import MOST_NEW_TOKENS

if TYPE_CHECKING:
    from client.answering import AnswerOptions

MaxNewTokens = Annotated[
    int, typer.Option("--max-new-tokens", min=1, max=MOST_NEW_TOKENS, help="The longest answer, in tokens.")
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
        autocompletion=one_of("greedy", "coupled", "speculative", "typical"),
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
        autocompletion=one_of("auto", "assist", "eager", "patient"),
        help="When the server verifies: at once (eager), after waiting for drafts (patient), drafting too (assist), or "
        "auto; by default the server's own.",
    ),
]
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        autocompletion=one_of("stream", "lockstep", "cloud"),
        help="stream, or for comparison lockstep (rounds) or cloud (no drafting).",
    ),
]
PaceDraft = Annotated[
    float, typer.Option("--pace-draft", min=0, metavar="MS", help="Simulated minimum duration of a drafted tree level.")
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

_FRESH_SEED_BITS = 63


@dataclass(frozen=True, slots=True)
class AnswerFlags:
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
        from client.text import given_text
        from common.protocol.rules import default_rule
        from common.protocol.sampling import Sampling

        stop = tuple(given_text("a stop string", each) for each in self.stop or ())
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
class ConversationFlags:
    """What a conversation begins with; each field is an option."""

    system: System = ""
