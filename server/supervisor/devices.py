"""The devices that replicas need, and whether a cluster has them. Pure; what machines have is in Ray's own mappings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.protocol.errors import MisuseError


@dataclass(frozen=True, slots=True)
class Needs:
    """Of `replicas` at a time with `ranks` each, all ranks of one on the same machine. `device`: cpu or cuda."""

    replicas: int
    ranks: int
    device: str

    @property
    def bundle(self) -> dict[str, float]:
        """What one replica reserves."""
        return {"GPU": self.ranks} if self.device == "cuda" else {"CPU": self.ranks}

    @property
    def cpus(self) -> int:
        """What a Ray must have for them that is started on this machine."""
        return 0 if self.device == "cuda" else self.replicas * self.ranks

    def check(self, machines: Sequence[Mapping[str, float]]) -> None:
        """Raises MisuseError where they do not fit."""
        (kind,) = self.bundle
        counts = [int(machine.get(kind, 0)) for machine in machines]
        largest, fitting = max(counts, default=0), sum(count // self.ranks for count in counts)
        if fitting >= self.replicas:
            return
        named = f"{kind}s" if self.ranks > 1 else kind
        if not fitting:
            raise MisuseError(
                f"a replica needs {self.ranks} {named} of one machine, and no machine of this Ray has more than "
                f"{largest}; "
                + ("give a smaller --tensor-parallel" if largest else f"start Ray where there are {kind}s")
            )
        raise MisuseError(
            f"{self.replicas} replicas need {self.ranks} {named} each, and this Ray has them for {fitting}; "
            f"give --replicas {fitting}, or add machines to it"
        )
