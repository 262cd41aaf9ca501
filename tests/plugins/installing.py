"""Makes packages visible as if they were installed: a folder on the path, with what pip writes about each of them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

EXAMPLE = Path(__file__).with_name("lockstep_example")
Points = Mapping[str, Mapping[str, str]]
"""Group of entry points -> name -> object."""


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
