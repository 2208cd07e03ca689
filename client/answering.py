"""What a person asks of an answer, and what that means for the session. Pure."""

from dataclasses import dataclass

from client.policies import POLICIES, Policy
from common.protocol.errors import MisuseError
from common.protocol.messages import Settings


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """`idle` is empty for the policy's own wish; `pace` is the least time of a drafted level in seconds."""

    policy: Policy
    max_new_tokens: int
    rule: str = "greedy"
    idle: str = ""
    pace: float = 0.0

    def settings(self) -> Settings:
        return Settings(self.max_new_tokens, self.rule, idle=self.idle or self.policy.idle)


def find_policy(name: str) -> Policy:
    """Raises MisuseError for an unknown name."""
    if name not in POLICIES:
        raise MisuseError(f"unknown policy '{name}'; choose from: {', '.join(POLICIES)}")
    return POLICIES[name]
