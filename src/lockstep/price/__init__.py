"""The price of one training step: layouts and their memory, kernels, and the step that they compose."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["layout", "step"])
