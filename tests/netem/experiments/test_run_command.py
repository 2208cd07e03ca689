"""Commands of kept results are read as `outrider-lab run` reads them."""

import pytest
import typer

from netem.cli import app
from netem.experiments.run_command import WITH_VALUE, read_command


@pytest.mark.parametrize(
    ("command", "experiment"),
    [
        ("outrider-lab run network --out load", "network"),
        ("outrider-lab run --out load network", "network"),
        ("outrider-lab run --quick --seed 3 --models families network --out=load", "network"),
        ("outrider-lab run --out=load network", "network"),
        ("outrider-lab run --unknown load network", "load"),
        ("outrider-lab run netwrk --out load", "netwrk"),
        ("make results", "make"),
    ],
)
def test_the_value_of_an_option_is_no_experiment(command: str, experiment: str) -> None:
    assert read_command(command).experiment == experiment


@pytest.mark.parametrize("command", ["", "outrider-lab run", "outrider-lab run --out load", "outrider-lab run --out"])
def test_a_command_without_an_experiment_is_refused(command: str) -> None:
    with pytest.raises(LookupError):
        read_command(command)


def test_all_options_that_have_a_value_are_known() -> None:
    (run,) = (command for name, command in typer.main.get_command(app).commands.items() if name == "run")
    options = [each for each in run.params if each.param_type_name == "option" and each.name != "help"]
    assert {name for each in options if not each.is_flag for name in each.opts} == set(WITH_VALUE)


def test_paths_are_choices_only_by_having_been_given() -> None:
    told = read_command("outrider-lab run engine --out a --seed 4 --target x --target y --apps b --apps c --quick")
    assert told.choices == {"--target": ("x", "y"), "--apps": (), "--quick": ()}
    assert read_command("outrider-lab run engine --device cpu").choices == {}
    assert read_command("outrider-lab run engine --device cuda").choices == {"--device": ("cuda",)}
