"""The case studies that ship with Lockstep, `studies/*.yaml`, and look-ups by name or path."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources

from lockstep.cases.schema import read_study
from lockstep.cases.study import Study
from lockstep.errors import UnknownName

SUFFIXES = (".yaml", ".yml")


@cache
def names() -> tuple[str, ...]:
    """Names of the studies, in alphabetical order."""
    folder = resources.files("lockstep.cases").joinpath("studies")
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def study(name_or_path: str) -> Study:
    """A study of the shelf, or of a YAML file. Raises UnknownName or BadInput."""
    if name_or_path in names():
        with resources.as_file(resources.files("lockstep.cases").joinpath(f"studies/{name_or_path}.yaml")) as path:
            return read_study(path)
    if name_or_path.lower().endswith(SUFFIXES) or os.path.isfile(name_or_path):
        return read_study(name_or_path)
    raise UnknownName("case", name_or_path, names(), "CASE")
