"""What kernels one device runs for its share of a model, and how long they take, traffic left out."""

from lockstep.kernels.clock import Clock as Clock
from lockstep.kernels.clock import Work as Work
