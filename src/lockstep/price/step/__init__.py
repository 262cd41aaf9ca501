"""One training step: kernels on a device, traffic of its groups, and what a pipeline makes of them."""

from lockstep.price.kernels.clock import Clock as Clock
from lockstep.price.kernels.clock import Work as Work
from lockstep.price.step.hiding import grid_hidings as grid_hidings
from lockstep.price.step.hiding import hiding as hiding
from lockstep.price.step.hiding import hidings as hidings
from lockstep.price.step.inside import operations_inside as operations_inside
from lockstep.price.step.network import Network as Network
from lockstep.price.step.program import step_program as step_program
from lockstep.price.step.program import step_timeline as step_timeline
from lockstep.price.step.splitting import best_split as best_split
from lockstep.price.step.step import PARTS as PARTS
from lockstep.price.step.step import Composition as Composition
from lockstep.price.step.step import Step as Step
from lockstep.price.step.step import compose as compose
from lockstep.price.step.step import message_B as message_B
from lockstep.price.step.step import price_step as price_step
from lockstep.price.step.step import priced as priced
from lockstep.price.step.step import step_time_s as step_time_s
