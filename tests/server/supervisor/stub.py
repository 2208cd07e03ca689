"""How a stub in place of `outriderd serve` is launched as a replica."""

from pathlib import Path

from common.address import Address
from server.supervisor.replica import Launch

HERE = Address("127.0.0.1", 7070)
ROOT = Path(__file__).parents[3]


def launch(
    *arguments: str, listen: Address = HERE, advertised: Address | None = None, store: str | None = None
) -> Launch:
    """Its `arguments` are those of `stubbed_serve.py`. It has no time to drain."""
    environment = {} if store is None else {"OUTRIDERD_FLEET_STORE": store}
    return Launch(
        arguments, listen, advertised, environment, str(ROOT), 0.0, Path(__file__).with_name("stubbed_serve.py")
    )
