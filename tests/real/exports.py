"""Plans drawn at random that an export takes, as tests of the exports draw them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "planner"))
from export_questions import questions


def drawn(target: str, number: int) -> tuple[Any, ...]:
    """Questions of `export_questions` with a seed of their own."""
    return tuple(questions(target, number, "real"))
