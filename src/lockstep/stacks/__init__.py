"""What software does with a device, by name and release."""

from lockstep.stacks.habits import Habits
from lockstep.stacks.stack import ATTENTION_KERNELS, DEFAULT, Stack, default_stack, stack, stacks

__all__ = ["ATTENTION_KERNELS", "DEFAULT", "Habits", "Stack", "default_stack", "stack", "stacks"]
