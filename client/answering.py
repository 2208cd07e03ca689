"""The options of an answer, and the session settings that follow from them. Pure."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from client.drafting.policies import LOCKSTEP, POLICIES, Policy
from common.protocol.checks import check_settings
from common.protocol.errors import MisuseError, PeerError
from common.protocol.messages import MOST_NEW_TOKENS, Constraint, Settings
from common.protocol.rules import RULES
from common.protocol.sampling import LIKELIEST, Sampling


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """`idle` is empty for the policy's own wish; `pace` is the least time of a drafted level in seconds. The answer
    ends with the first of the `stop` strings. `top_logprobs` is that of `Settings`."""

    policy: Policy
    max_new_tokens: int
    rule: str = "greedy"
    idle: str = ""
    pace: float = 0.0
    sampling: Sampling = LIKELIEST
    stop: tuple[str, ...] = ()
    constraint: Constraint | None = None
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        """Raises MisuseError for what no server would take, in the server's words."""
        _check_known("rule", self.rule, RULES)
        if not 0 <= self.pace < math.inf:
            raise MisuseError(f"a drafted level takes a finite time, 0 ms or more, not {self.pace * 1000:g}")
        if self.idle == LOCKSTEP.idle and not self.policy.drafts:
            raise MisuseError(
                f"the policy '{self.policy.name}' never proposes anything, so that a server whose idle policy is "
                f"'{self.idle}' would wait for ever; choose another --idle"
            )
        if not 1 <= self.max_new_tokens <= MOST_NEW_TOKENS:
            raise MisuseError(f"max_new_tokens must be at least 1 and at most {MOST_NEW_TOKENS}")
        try:
            check_settings(replace(self.settings(), idle=""))  # a server may have idle policies that we do not know
        except PeerError as error:
            raise MisuseError(str(error)) from error

    @property
    def seed(self) -> int | None:
        """Of what is drawn, None if nothing is. Under the rule `coupled` the same answer comes again with it."""
        return self.sampling.seed if self.sampling.temperature > 0 else None

    @property
    def lossy(self) -> bool:
        """Whether the answer may be none of the target's own; at temperature 0 every rule is greedy."""
        return RULES[self.rule].lossy and self.sampling.temperature > 0

    def settings(self) -> Settings:
        idle = self.idle or self.policy.idle
        return Settings(
            self.max_new_tokens, self.rule, self.stop, idle, self.sampling, self.constraint, self.top_logprobs
        )


def find_policy(name: str) -> Policy:
    """Raises MisuseError for an unknown name."""
    _check_known("policy", name, POLICIES)
    return POLICIES[name]


def require_rule(rule: str, offered: Sequence[str]) -> None:
    """Raises MisuseError if a server does not offer the rule."""
    if rule not in offered:
        raise MisuseError(f"this server does not offer the rule '{rule}'; it offers {', '.join(offered)}")


def require_idle(idle: str, offered: Sequence[str]) -> None:
    """Raises MisuseError if a server has no such idle policy; an empty one leaves the choice to it."""
    if idle and idle not in offered:
        raise MisuseError(f"this server has no idle policy '{idle}'; it has {', '.join(offered)}")


def _check_known(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise MisuseError(f"unknown {what} '{name}'; choose from: {', '.join(known)}")
