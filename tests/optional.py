"""Packages that a few tests compare with: such a test is skipped where the package is not installed."""

from typing import Any

import pytest


class Optional:
    """The package called `name`, imported when a test first reads something of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or "pytest" in attribute:
            raise AttributeError(attribute)  # What pytest asks of every name of a module.
        return getattr(pytest.importorskip(self.name, reason=f"needs {self.name}"), attribute)


torch: Any = Optional("torch")
