"""transformers 5: it takes tensors without bytes for tracing, and then builds masks that eager code leaves out.

accelerate: ranks send the state of their random numbers to one another, which C++ reads.
Threads that load weights would do so where there is no card.

Source: transformers 5.17.0 and 5.24.0, utils/import_utils.py (is_fake_tensor, is_tracing); accelerate 1.15.0,
utils/random.py, and data_loader.py, which imports from it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

from lockstep.run.capture.libraries.deepspeed import After

RANDOM = "synchronize_rng_states"


def prepare(notes: list[str]) -> None:
    """Tensors are not told from others, ranks have the same random numbers, and no thread loads weights."""
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
    for module in ("accelerate.utils.random", "accelerate.data_loader"):
        sys.meta_path.insert(0, After(module, lambda found: setattr(found, RANDOM, lambda *args, **words: None)))
    if importlib.util.find_spec("transformers") is None:
        return
    import_utils = importlib.import_module("transformers.utils.import_utils")
    if hasattr(import_utils, "is_fake_tensor"):
        vars(import_utils)["is_fake_tensor"] = lambda one: False
