"""What a question is about: models, hardware and training software."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["hardware", "workload"])
