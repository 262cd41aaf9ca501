"""Where answers go: one JSON object on stdout with `--json`, a table for a person without; errors to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.errors import Infeasible


def plain(value: Any) -> Any:
    """`value` as plain JSON: numpy numbers become Python's, numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(answer: Mapping[str, Any]) -> None:
    """One JSON object on stdout, keys in the order given."""
    sys.stdout.write(json.dumps(plain(answer), allow_nan=False, ensure_ascii=False) + "\n")


def print_infeasible(error: Infeasible, as_json: bool) -> None:
    """A "no" with its reasons: JSON on stdout when asked for, else one line each on stderr."""
    if as_json:
        print_json(
            {
                "feasible": False,
                "why": str(error),
                "violations": [violation.to_dict() for violation in error.violations],
            }
        )
    else:
        sys.stderr.write(f"no: {error}\n")
