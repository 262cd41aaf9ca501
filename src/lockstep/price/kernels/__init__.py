"""What kernels one device runs for its share of a model, and how long they take, traffic left out."""

from lockstep.price.kernels.clock import Clock as Clock
from lockstep.price.kernels.clock import Work as Work
