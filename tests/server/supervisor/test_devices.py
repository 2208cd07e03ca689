"""What replicas reserve, and the sentence for machines that do not have it."""

import pytest

from common.protocol.errors import MisuseError
from server.supervisor.devices import Needs

EIGHT, TWO, NONE = {"GPU": 8.0, "CPU": 64.0}, {"GPU": 2.0, "CPU": 8.0}, {"CPU": 4.0}


def test_a_replica_reserves_a_device_for_each_rank() -> None:
    assert Needs(3, 4, "cuda").bundle == {"GPU": 4}
    assert Needs(3, 2, "cpu").bundle == {"CPU": 2}
    assert (Needs(3, 2, "cpu").cpus, Needs(3, 2, "cuda").cpus) == (6, 0)


@pytest.mark.parametrize(("needs", "machines"), [(Needs(3, 4, "cuda"), [EIGHT, EIGHT]), (Needs(4, 1, "cpu"), [NONE])])
def test_what_fits_is_fine(needs: Needs, machines: list[dict[str, float]]) -> None:
    needs.check(machines)


@pytest.mark.parametrize(
    ("needs", "machines", "sentence"),
    [
        (
            Needs(1, 4, "cuda"),
            [TWO, TWO],
            "4 GPUs of one machine, and no machine of this Ray has more than 2; give",
        ),
        (
            Needs(1, 1, "cuda"),
            [NONE],
            "1 GPU of one machine, and no machine of this Ray has more than 0; start",
        ),
        (
            Needs(4, 3, "cuda"),
            [EIGHT, TWO],
            "need 3 GPUs each, and this Ray has them for 2; give --replicas 2",
        ),
    ],
)
def test_what_does_not_fit_is_told(needs: Needs, machines: list[dict[str, float]], sentence: str) -> None:
    with pytest.raises(MisuseError) as refused:
        needs.check(machines)
    assert sentence in str(refused.value)
