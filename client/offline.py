"""What a person wants done while the server is out of reach. Data only; `conversation` gives it effect."""

from dataclasses import dataclass

LIMIT = 256
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Offline:
    """At most `limit` tokens are written behind what is final; once there is nothing more to write, the server is
    waited for as long as `patience`: seconds in all since it last brought a token, so that a link that comes back for
    moments and brings nothing does not begin them anew. `keep` adopts what was written when the server is back,
    instead of having it judged."""

    limit: int = LIMIT
    patience: float = PATIENCE_SECONDS
    keep: bool = False
