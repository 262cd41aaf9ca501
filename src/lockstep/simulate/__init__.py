"""Parallel programs as data: collectives, kinds of parallelism and failures, priced in closed form and played."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["collectives", "failures", "parallel", "play", "program"])
