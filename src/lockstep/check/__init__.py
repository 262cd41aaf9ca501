"""What predictions are held against: published measurements, and the claims of the literature."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["validation"])
