"""Runs every program of this folder on the same four processes: python examples/guide."""

from importlib import import_module
from pathlib import Path

from processes import run

HERE = Path(__file__).parent
NAMES = sorted(file.stem for file in HERE.glob("*.py") if file.stem not in ("__main__", "processes"))

if __name__ == "__main__":
    run(*(import_module(name).work for name in NAMES))
