"""What software does with a device, by name and release."""

from lockstep.stacks.habits import Habits
from lockstep.stacks.stack import ATTENTION_KERNELS, DEFAULT, Stack, default_stack, stack, stacks
from lockstep.stacks.ways import Way, find_way, ways

__all__ = [
    "ATTENTION_KERNELS", "DEFAULT", "Habits", "Stack", "Way", "default_stack", "find_way", "stack", "stacks", "ways",
]  # fmt: skip
