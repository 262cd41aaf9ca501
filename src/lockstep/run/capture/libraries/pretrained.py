"""Models of transformers whose weights are not there: the configuration says what they are, and no value is needed.

Source: transformers 5.17.0, modeling_utils.py (from_pretrained, _from_config, _get_resolved_checkpoint_files).
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

from lockstep.run.capture.libraries.after import After

MISSING = ("no file named", "not appear to have a file named")
"""What is said of a folder, and of a repository in the cache, that has a configuration and no weights."""
NOTE = "from_pretrained: {} has no weights here, and its configuration says the model"
TAKEN = ("attn_implementation", "experts_implementation")


def prepare(notes: list[str]) -> None:
    """A folder with `config.json` is enough for `from_pretrained`."""
    sys.meta_path.insert(0, After("transformers.modeling_utils", partial(_without_weights, notes)))


def _without_weights(notes: list[str], module: ModuleType) -> None:
    own = module.PreTrainedModel.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *args: Any, **words: Any) -> Any:
        try:
            return own(cls, name, *args, **words)
        except OSError as error:
            if words.get("quantization_config") or not any(one in str(error) for one in MISSING):
                raise
        if (note := NOTE.format(name)) not in notes:
            notes.append(note)
        return _from_configuration(cls, name, words)

    module.PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def _from_configuration(cls: Any, name: Any, words: dict[str, Any]) -> Any:
    """The model in the format and on the device that it would be read in."""
    config = words.get("config") or cls.config_class.from_pretrained(name)
    dtype = words.get("dtype", words.get("torch_dtype", "auto"))
    taken = {one: words[one] for one in TAKEN if one in words}
    made = cls._from_config(config, dtype=config.dtype if dtype in ("auto", None) else dtype, **taken).eval()
    return made if words.get("device_map") in (None, "cpu") else made.to("cuda")
