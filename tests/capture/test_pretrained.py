"""Models whose weights are not there, with a stand-in for the library that reads them."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

from lockstep.run.capture.libraries.pretrained import _without_weights  # noqa: E402


class Model:
    """What transformers' base class does, in short."""

    config_class = SimpleNamespace(from_pretrained=lambda name: SimpleNamespace(name=name, dtype=torch.bfloat16))
    says = "Error no file named model.safetensors, or pytorch_model.bin, found in directory llama."

    def __init__(self, config: Any, dtype: Any, **words: Any) -> None:
        self.config, self.dtype, self.words = config, dtype, words

    @classmethod
    def from_pretrained(cls, name: str, **words: Any) -> "Model":
        raise OSError(cls.says)

    @classmethod
    def _from_config(cls, config: Any, **words: Any) -> "Model":
        return cls(config, **words)

    def eval(self) -> "Model":
        return self

    def to(self, device: str) -> "Model":
        self.device = device
        return self


Read = tuple[type[Model], list[str]]


@pytest.fixture
def read() -> Read:
    """Models as a captured program reads them, and the notes on these."""
    notes: list[str] = []
    module = SimpleNamespace(PreTrainedModel=type("PreTrainedModel", (Model,), {}))
    _without_weights(notes, module)
    return module.PreTrainedModel, notes


def test_a_configuration_is_enough(read: Read) -> None:
    kind, notes = read
    asked = kind.from_pretrained("llama", dtype=torch.float32, attn_implementation="eager", device_map="auto")
    assert (asked.config.name, asked.dtype, asked.device) == ("llama", torch.float32, "cuda")
    assert asked.words == {"attn_implementation": "eager"}
    for words in ({}, {"dtype": "auto"}, {"torch_dtype": None}):
        assert kind.from_pretrained("llama", **words).dtype == torch.bfloat16
    given = SimpleNamespace(name="given", dtype=None)
    assert kind.from_pretrained("llama", config=given).config is given
    assert notes == ["from_pretrained: llama has no weights here, and its configuration says the model"]


def test_what_needs_its_weights_is_not_made_up(read: Read) -> None:
    kind, notes = read
    with pytest.raises(OSError, match="no file named"):
        kind.from_pretrained("llama", quantization_config=object())
    kind.says = "llama is not a local folder and is not a valid model identifier"
    with pytest.raises(OSError, match="not a valid model"):
        kind.from_pretrained("llama")
    assert notes == []
