"""What software does with a device, by name and release."""

from lockstep.describe.stacks.differences import Difference, differences
from lockstep.describe.stacks.habits import Habits
from lockstep.describe.stacks.own import own_stack
from lockstep.describe.stacks.stack import (
    ATTENTION_KERNELS,
    DEFAULT,
    OPTIONS,
    Options,
    Stack,
    default_stack,
    stack,
    stacks,
)
from lockstep.describe.stacks.ways import Way, find_way, usual_ways, ways

__all__ = [
    "ATTENTION_KERNELS", "DEFAULT", "OPTIONS", "Difference", "Habits", "Options", "Stack", "Way", "default_stack",
    "differences", "find_way", "own_stack", "stack", "stacks", "usual_ways", "ways",
]  # fmt: skip
