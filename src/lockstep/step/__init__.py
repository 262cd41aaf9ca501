"""One training step: kernels on a device, traffic of its groups, and what a pipeline makes of them."""

from lockstep.kernels.clock import Clock as Clock
from lockstep.kernels.clock import Work as Work
from lockstep.step.hiding import grid_hidings as grid_hidings
from lockstep.step.hiding import hiding as hiding
from lockstep.step.hiding import hidings as hidings
from lockstep.step.inside import operations_inside as operations_inside
from lockstep.step.network import Network as Network
from lockstep.step.program import step_program as step_program
from lockstep.step.program import step_timeline as step_timeline
from lockstep.step.splitting import best_split as best_split
from lockstep.step.step import PARTS as PARTS
from lockstep.step.step import Composition as Composition
from lockstep.step.step import Step as Step
from lockstep.step.step import compose as compose
from lockstep.step.step import price_step as price_step
from lockstep.step.step import priced as priced
from lockstep.step.step import step_time_s as step_time_s
