"""What a person wants done while the server is out of reach. Data only; `conversation` gives it effect."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offline:
    """At most `limit` tokens are written behind what is final; once there is nothing more to write, the server is
    waited for as long as `patience`, in seconds. `keep` adopts what was written when the server is back, instead of
    having it judged."""

    limit: int = 256
    patience: float = 30.0
    keep: bool = False
