"""Rows of answers as files: CSV, or Parquet where the name ends so."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import BinaryIO

from lockstep.base.documents.files import replacing
from lockstep.base.errors import not_installed
from lockstep.base.types.plain import Json

PARQUET = ".parquet"
BEST_FIRST = ("plans",)
"""Lists whose first table is the best: its figures are columns, as they are on the screen."""


def check_format(path: Path, where: str) -> None:
    """Raises BadInput where the format of the name needs a package that is not installed."""
    if path.suffix == PARQUET and find_spec("pyarrow") is None:
        raise not_installed("Parquet needs pyarrow", "data", where)


def write_rows(rows: Sequence[Json], path: Path) -> None:
    """One line, or one row of a Parquet table, for each of `rows`; what is neither text nor a number is JSON."""
    flat = [flattened(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    with replacing(path) as file:
        if path.suffix == PARQUET:
            return _write_parquet(flat, names, file)
        text = StringIO(newline="")
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)
        file.write(text.getvalue().encode("utf-8"))


def flattened(row: Mapping[str, object], before: str = "") -> Json:
    """A row without tables inside: a key for each number, with dots."""
    flat: Json = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{before}{key}.")
            continue
        if key in BEST_FIRST and isinstance(value, list) and value:
            flat |= flattened(value[0], f"{before}{key}.0.")
        flat[before + key] = json.dumps(value) if isinstance(value, list | tuple) else value
    return flat


def _write_parquet(rows: Sequence[Json], names: Sequence[str], file: BinaryIO) -> None:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    columns = {name: _alike([row.get(name) for row in rows]) for name in names}
    parquet.write_table(arrow.table(columns), file)


def _alike(values: list[object]) -> list[object]:
    """The values of a column as one type: numbers, truth values, or text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        # A column of whole numbers that no 64 bits hold, or of both kinds, is one of floats.
        exact = kinds == {int} and all(value is None or abs(int(str(value))) < 2**63 for value in values)
        return values if exact else [None if value is None else float(str(value)) for value in values]
    return values if len(kinds) <= 1 else [None if value is None else str(value) for value in values]
