"""transformers 5: it takes tensors without bytes for tracing, and then builds masks that eager code leaves out.

Source: transformers 5.17.0 and 5.24.0, utils/import_utils.py (is_fake_tensor, is_tracing).
"""

from __future__ import annotations

import importlib
import importlib.util


def prepare(notes: list[str]) -> None:
    """Its tensors are not told from others."""
    if importlib.util.find_spec("transformers") is None:
        return
    import_utils = importlib.import_module("transformers.utils.import_utils")
    if hasattr(import_utils, "is_fake_tensor"):
        vars(import_utils)["is_fake_tensor"] = lambda one: False
