"""What a method costs in steps: its algorithms, and the experiments that measure what they need."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["methods"])
