"""Makes packages visible as if they were installed: a folder on the path, with what pip writes about each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cli_runner import Session

EXAMPLE = Path(__file__).with_name("lockstep_example")
Points = Mapping[str, Mapping[str, str]]
"""Group of entry points -> name -> object."""
Ask = Callable[..., Session]
"""Runs `lockstep` with these arguments; variables as keywords."""
SERVER = """
import json, os, sys
import cli_runner, lockstep.show.cli.app, lockstep.decide.planner, lockstep.simulate.play

for line in sys.stdin:
    words, variables = json.loads(line)
    if os.fork() == 0:
        os.environ.update(variables)
        found = cli_runner.run(*words)
        print(json.dumps([found.code, found.out, found.err]), flush=True)
        os._exit(0)
    os.wait()
"""
"""Imports `lockstep` once; every command runs in a copy of this process, which has looked at no package yet."""


def install(folder: Path, package: str, points: Points) -> None:
    """Writes what is known of a package into a folder that is on the path."""
    about = folder / f"{package.replace('-', '_')}-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n", "utf-8")
    lines = [
        line for group, named in points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in named.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


def install_example(folder: Path) -> None:
    """The example package."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    install(folder, project["name"], project["entry-points"])


def path_with(*folders: Path) -> dict[str, str]:
    """Environment of a process that also finds what is in these folders."""
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {"PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in (*folders, *before))}


@contextmanager
def commands(visible: Mapping[str, str]) -> Iterator[Ask]:
    """The command line in this environment, one after another."""
    path = os.pathsep.join([visible["PYTHONPATH"], str(EXAMPLE.parents[1])])
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env={**os.environ, **visible, "PYTHONPATH": path}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip

        def ask(*words: str, **variables: str) -> Session:
            assert server.stdin
            assert server.stdout
            print(json.dumps([words, variables]), file=server.stdin, flush=True)
            return Session(*json.loads(server.stdout.readline()))

        yield ask
