"""Changes that wait until a program imports a library, so that one it does not use is not loaded."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class After(importlib.abc.MetaPathFinder):
    """Changes a module when a program has imported it."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self.name, self.change = name, change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's own, once, with the change behind it."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is not None and found.loader is not None:
            run, change = found.loader.exec_module, self.change

            def executed(module: ModuleType) -> None:
                run(module)
                change(module)

            found.loader.exec_module = executed  # type: ignore[method-assign]
        return found
