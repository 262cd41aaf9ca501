"""Hypothesis profiles: the same examples on every run, no deadline on a loaded machine. Tiers, and one experiment.

A run ends with the processor time that it took, which a busy machine does not change.
"""

import gc
import os
import resource
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from predicted_once import between_processes, shared
from tiers import TIERS, tier_of

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
"""Which process of xdist this is, and of how many; one that replaces a crashed one has a larger number."""
SLOW_FIRST = ("page", "process", "long", "fast")

settings.register_profile(
    "ci", max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fast", settings.get_profile("ci"), max_examples=5)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--experiment NAME`: only the tests that are about this experiment of the lab."""
    parser.addoption("--experiment", metavar="NAME", help="run only the tests about this experiment of the lab")


def pytest_configure(config: pytest.Config) -> None:
    """The markers of the tiers; the fast tier alone tries fewer examples."""
    if config.getoption("markexpr") == "fast":
        settings.load_profile("fast")
    for name, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks a test with the tier of its file."""
    tier = tier_of(item.path)
    if tier is not None:
        item.add_marker(tier)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m` and names of tiers, files of other tiers are not even imported."""
    wanted = set(config.getoption("markexpr").split(" or "))
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and wanted <= set(TIERS) and tier_of(collection_path) not in wanted else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the garbage collector, which would walk all tests again and again as their number grows."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Processes of a run begin with different files: what one has compiled, with its asserts rewritten, others read."""
    report = yield
    if all(isinstance(one, pytest.Dir | pytest.Module) for one in report.result):
        begin = len(report.result) * WORKER // WORKERS
        report.result = report.result[begin:] + report.result[:begin]
    return report


def subject(item: pytest.Item) -> str:
    """The name that a case of a test is about, where it has one."""
    parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    named = parameters.get("name", "")
    return named if isinstance(named, str) else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests first, so that no process is left alone with them; only those about `--experiment`.

    Those of a file about one name stay together, so that one process has what the file keeps of it.
    """
    files = {path: place for place, path in enumerate(sorted({item.path for item in items}))}
    items.sort(key=lambda item: (SLOW_FIRST.index(tier_of(item.path) or "fast"), files[item.path], subject(item)))
    name = config.getoption("--experiment")
    if name is None:
        return
    from lab.table import experiments_of
    from lockstep.learn.lab import find_experiment

    wanted = find_experiment(name, "--experiment").name
    kept = [item for item in items if wanted in experiments_of(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


@pytest.fixture(scope="session", autouse=True)
def _tables_are_predicted_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of several processes one predicts a published table, and the others read its report."""
    if between_processes(tmp_path_factory):
        from lockstep.check.validation import report

        report._report = shared(report._report)


OBJECTS_BEFORE_COLLECTION = 20_000
PROCESSOR_S = "processor_s"
_OF_WORKERS_S: list[float] = []
"""What the workers of xdist said that they took."""


def processor_s() -> float:
    """Seconds of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells what it took."""
    told: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told[PROCESSOR_S] = processor_s()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker told; one that crashed tells nothing."""
    _OF_WORKERS_S.append(getattr(node, "workeroutput", {}).get(PROCESSOR_S, 0.0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The processor time of all tests."""
    # Where there are workers, this process has only waited for them; those that have ended are among its children.
    used_s = sum(_OF_WORKERS_S) if _OF_WORKERS_S else processor_s()
    terminalreporter.write_line(f"processor time: {used_s:,.1f} s, of tests and all that they started")


def pytest_collection_finish() -> None:
    """Keeps what collection made out of the garbage collector, which would walk all 18,000 tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
