"""How many bytes a stream has carried. It may not know gRPC, so that what only shows figures stays without it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Traffic:
    """Serialized frames on a stream with gRPC's message prefix, in bytes; HTTP/2, TLS and TCP add to it.

    A frame that goes up counts from when it begins to leave, whether or not it arrives. `state` is the draft state's
    part of what came down, by its kind.
    """

    up: int = 0
    down: int = 0
    state: Mapping[str, int] = field(default_factory=dict)

    def plus(self, other: "Traffic") -> "Traffic":
        state = Counter(self.state)
        state.update(other.state)
        return Traffic(self.up + other.up, self.down + other.down, dict(state))

    def since(self, earlier: "Traffic") -> "Traffic":
        state = {kind: size - earlier.state.get(kind, 0) for kind, size in self.state.items()}
        return Traffic(self.up - earlier.up, self.down - earlier.down, state)
