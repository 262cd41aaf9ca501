"""transformers 5: it takes tensors without bytes for tracing, and then builds masks that eager code leaves out.

Generated text never ends before its greatest length: which token is drawn depends on weights, and the longest is what
memory has to hold. What is given has tokens that end nothing, so that programs that look for an end find none.

accelerate: ranks send the state of their random numbers to one another, which C++ reads.
Threads that load weights would do so where there is no card.

Source: transformers 5.17.0 and 5.24.0, utils/import_utils.py (is_fake_tensor, is_tracing), generation; accelerate
1.15.0, utils/random.py, and data_loader.py, which imports from it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from lockstep.run.capture.known import know, value
from lockstep.run.capture.libraries.after import After
from lockstep.run.capture.real import really

RANDOM = "synchronize_rng_states"
LONGEST = "generated text: as long as the program allows, as where it ends depends on weights"


def prepare(notes: list[str]) -> None:
    """Tensors are not told from others, ranks have the same random numbers, and no thread loads weights."""
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
    for module in ("accelerate.utils.random", "accelerate.data_loader"):
        sys.meta_path.insert(0, After(module, lambda found: setattr(found, RANDOM, lambda *args, **words: None)))
    sys.meta_path.insert(0, After("transformers.generation.stopping_criteria", _never_ends))
    sys.meta_path.insert(0, After("transformers.generation.utils", lambda found: _generates(found, notes)))
    if importlib.util.find_spec("transformers") is None:
        return
    import_utils = importlib.import_module("transformers.utils.import_utils")
    if hasattr(import_utils, "is_fake_tensor"):
        vars(import_utils)["is_fake_tensor"] = lambda one: False


def _never_ends(module: ModuleType) -> None:
    def ended(self: Any, input_ids: Any, *args: Any, **words: Any) -> torch.Tensor:
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

    module.EosTokenCriteria.__call__ = ended


def _generates(module: ModuleType, notes: list[str]) -> None:
    old = module.GenerationMixin.generate

    @wraps(old)
    def generate(self: Any, *args: Any, **words: Any) -> Any:
        given = old(self, *args, **words)
        notes.extend([LONGEST] * (LONGEST not in notes))
        ids = given if isinstance(given, torch.Tensor) else given.sequences
        asked = words.get("input_ids", args[0] if args else None)
        prompt = value(asked) if isinstance(asked, torch.Tensor) else None
        know(ids, _text(ids, prompt, words.get("generation_config") or self.generation_config))
        return given

    module.GenerationMixin.generate = generate


@really
def _text(ids: torch.Tensor, prompt: torch.Tensor | None, said: Any) -> torch.Tensor:
    """A prompt, and then a token that neither ends it nor fills it up."""
    ends = said.eos_token_id if isinstance(said.eos_token_id, list) else [said.eos_token_id]
    token = next(one for one in range(len(ends) + 2) if one not in (*ends, said.pad_token_id))
    text = torch.full(tuple(ids.shape), token)
    if prompt is not None and prompt.shape[0] == text.shape[0] and prompt.shape[1] <= text.shape[1]:
        text[:, : prompt.shape[1]] = prompt
    return text
