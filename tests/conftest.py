"""Hypothesis profiles: the same examples on every run, no deadline on a loaded machine. The tests of one experiment."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--experiment NAME`: only the tests that are about this experiment of the lab."""
    parser.addoption("--experiment", metavar="NAME", help="run only the tests about this experiment of the lab")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is not about the experiment that was asked for."""
    name = config.getoption("--experiment")
    if name is None:
        return
    from converge.table import experiments_of
    from lockstep.lab import find_experiment

    wanted = find_experiment(name, "--experiment").name
    kept = [item for item in items if wanted in experiments_of(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
