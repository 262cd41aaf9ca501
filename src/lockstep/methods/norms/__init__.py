"""Norms, one file each: the step that each of them makes steepest."""

from lockstep.methods.norms.absolute import Absolute
from lockstep.methods.norms.blocks import Blocks
from lockstep.methods.norms.euclidean import Euclidean
from lockstep.methods.norms.maximum import Maximum
from lockstep.methods.norms.norm import Norm, least_value, steepest_step
from lockstep.methods.norms.power import Power
from lockstep.methods.norms.spectral import Spectral

__all__ = [
    "Absolute",
    "Blocks",
    "Euclidean",
    "Maximum",
    "Norm",
    "Power",
    "Spectral",
    "least_value",
    "steepest_step",
]
