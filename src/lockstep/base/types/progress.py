"""`Progress`: what long computations call now and then, with how much is done and how much there is."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""(done, total)."""
