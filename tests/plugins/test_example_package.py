"""What another package offers is used by name, listed, completed, suggested and cited as Lockstep's own is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installing import EXAMPLE, Ask, commands, install_example, path_with

from cli_runner import run, shell

TESTS = Path(__file__).parents[1]
LINK = ("--latency", "5us", "--bandwidth", "10GB/s")
PIPELINE = ("--stages", "4", "--microbatches", "8", "--forward-s", "1", "--backward-s", "2")


@pytest.fixture(scope="module")
def visible(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment in which the example package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    install_example(folder)
    return path_with(folder, EXAMPLE)


@pytest.fixture(scope="module")
def ask(visible: dict[str, str]) -> Iterator[Ask]:
    with commands(visible) as found:
        yield found


def answer(ask: Ask, *words: str) -> dict[str, Any]:
    """The JSON answer of a command that says nothing else."""
    found = ask(*words, "--json")
    assert (found.code, found.err) == (0, "")
    return found.json()


def test_a_collective_is_compared_simulated_and_counted(ask: Ask) -> None:
    words = ("collective", "all-reduce", "--ranks", "8", "--size", "8MB", *LINK)
    rows = {row["algorithm"]: row for row in answer(ask, *words, "--simulate")["rows"]}
    own = rows["half-tree"]
    assert own["time_s"] == pytest.approx((3 + 7) * (5e-6 + 8e6 / 10e9), rel=1e-12)
    assert own["simulated_s"] == pytest.approx(own["time_s"], rel=1e-12)
    named = answer(ask, *words, "--algorithm", "half-tree")
    assert [row["algorithm"] for row in named["rows"]] == ["half-tree"]
    (counted,) = answer(ask, "messages", "--workers", "8", "--params", "100", "--program", "half-tree")["rows"]
    assert (counted["messages"], counted["formula"]) == (14, "2(n-1) of p")


def test_automatic_choices_never_use_plugins(ask: Ask) -> None:
    """Installing a package changes no answer in which it is not named."""
    words = ("trace", "all-reduce", "--ranks", "4", "--size", "1KB", *LINK, "--json")
    assert ask(*words).out == run(*words).out


def test_a_schedule_is_priced_alone_among_all_and_in_a_step(ask: Ask) -> None:
    alone = answer(ask, "pipeline", *PIPELINE, "--schedule", "last-first")
    gpipe = answer(ask, "pipeline", *PIPELINE, "--schedule", "gpipe")
    assert alone["makespan_s"] == gpipe["makespan_s"] == (8 + 3) * 3
    every = answer(ask, "pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "all")
    assert "last-first" in {point["schedule"] for point in every["points"]}
    step = ("estimate", "gpt2-xl", "-c", "dgx-h100:1", "--batch", "64", "--pp", "4")
    times = [answer(ask, *step, "--schedule", name)["step_time_s"] for name in ("last-first", "gpipe")]
    assert times[0] == times[1]
    cited = answer(ask, "cite", *step[1:], "--schedule", "last-first")
    assert "Huang et al. 2019 (arXiv 1811.06965), figure 2" in str(cited)


def test_a_device_and_a_link_are_hardware_like_any_other(ask: Ask, tmp_path: Path) -> None:
    listed = {shelf: answer(ask, "catalog", shelf)[shelf] for shelf in ("devices", "links")}
    assert listed["devices"][-1]["name"] == "example-card"
    assert listed["links"][-1]["provenance"]["latency_s"]["text"].startswith("made up")
    machine = answer(ask, "estimate", "gpt2", "-c", "example-card:2", "--batch", "16")
    assert machine["memory"]["fits"]
    assert "made up for the example package" in str(
        answer(ask, "cite", "gpt2", "-c", "example-card:2", "--batch", "16")
    )
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "cluster: {device: example-card, levels: [{name: node, size: 4, link: example-link}], source: here}\n", "utf-8"
    )
    assert answer(ask, "estimate", "gpt2", "-c", str(mine), "--batch", "16")["layout"]["dp"] == 4


def test_a_method_trains(visible: dict[str, str]) -> None:
    pytest.importorskip("torch", reason="needs torch")
    words = ("--ranks", "2", "--steps", "3", "--batch", "16", "--dtype", "float64")
    found = shell("train", "average-weights,synchronous", *words, "--json", env=visible).json()
    mine, synchronous = (run["loss"] for run in found["runs"])
    assert mine == pytest.approx(synchronous, rel=1e-12)


def test_tables_list_plugins(ask: Ask) -> None:
    for words, name in (
        (("train",), "average-weights"),
        (("catalog", "devices"), "example-card"),
        (("catalog", "links"), "example-link"),
        (("collective", "all-reduce", "--ranks", "4", "--size", "1MB", *LINK), "half-tree"),
        (("pipeline", *PIPELINE[:4], "--schedule", "all", "--json"), "last-first"),
    ):
        found = ask(*words, COLUMNS="160")
        assert name in found.out, words


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (
            ("collective", "all-reduce", "--ranks", "4", "--size", "1MB", *LINK, "--algorithm", "half-treee"),
            "half-tree",
        ),
        (("pipeline", *PIPELINE, "--schedule", "last-frist"), "last-first"),
        (("estimate", "gpt2", "-c", "example-cart:2", "--batch", "16"), "example-card"),
        (("train", "average-weight"), "average-weights"),
        (("train", "pipeline", "--set", "schedule=last-frist"), "last-first"),
    ],
    ids=lambda given: given if isinstance(given, str) else given[0],
)
def test_misspelled_names_are_suggested(ask: Ask, words: tuple[str, ...], name: str) -> None:
    assert f"did you mean {name}?" in ask(*words).refusal()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("lockstep plan gpt2 -c example-", "example-card:"),
        ("lockstep pipeline --schedule last", "last-first"),
        ("lockstep collective all-reduce --algorithm half", "half-tree"),
        ("lockstep train average", "average-weights"),
    ],
)
def test_shell_completion_lists_plugins(ask: Ask, line: str, name: str) -> None:
    words = {"_LOCKSTEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = ask(**words)
    assert (done.code, done.err, name in done.out.split()) == (0, "", True)


def test_plugins_pass_the_conformance_tests(visible: dict[str, str]) -> None:
    """The conformance tests run on what is installed: price, program, result, bounds, reduction to synchronous SGD."""
    laws = (
        "collectives/test_conformance.py",
        "parallel/test_pipeline_conformance.py",
        "measure/train/test_in_threads.py",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-k", "half-tree or last-first or average-weights", *laws],
        cwd=TESTS, env=os.environ | visible, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    count = int(done.stdout.rsplit(" passed", 1)[0].split()[-1])
    assert count >= 12 + 8 + 5


def test_the_page_shows_its_entry_points() -> None:
    page = (TESTS.parent / "docs/use/add-your-own.md").read_text("utf-8")
    block = page.split("```toml\n")[1].split("```")[0]
    assert block in (EXAMPLE / "pyproject.toml").read_text("utf-8")


def test_plugins_are_not_imported_before_they_are_named(visible: dict[str, str]) -> None:
    code = (
        "import sys, lockstep; lockstep.estimate('gpt2', 'dgx-h100:1', batch=16, pp=2, tp=4);"
        "print('importlib.metadata' in sys.modules and [m for m in sys.modules if m.startswith('lockstep_example')]);"
        "from lockstep.simulate.parallel import pipeline; print(len(pipeline.names()));"
        "print([m for m in sys.modules if m.startswith('lockstep_example')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | visible, capture_output=True, text=True, check=True
    )
    first, names, second = done.stdout.split("\n")[:3]
    assert (first in ("False", "[]"), names, second) == (True, "17", "[]")
