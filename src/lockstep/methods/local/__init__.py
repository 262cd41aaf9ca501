"""Local methods: workers take steps of their own and agree now and then. Pieces of a round, one file each.

    start = x, the parameters all workers agree on
    each worker:  K steps from x  ->  y_i              (with `fedprox` or `scaffold` in the gradient)
    delta = x - mean of y_i                            the outer gradient (`averaging`)
    x <- outer update of x with delta                  (`outer`: plain averaging, server momentum, DiLoCo)
    buffers of local optimisers: kept, averaged or reset (`buffers`)
Every piece takes one array or one list of arrays of a worker or of all; the first axis of stacked ones is the worker.
"""

from lockstep.methods.local.averaging import mean_of as mean_of
from lockstep.methods.local.averaging import outer_gradient as outer_gradient
from lockstep.methods.local.buffers import BUFFER_POLICIES as BUFFER_POLICIES
from lockstep.methods.local.buffers import after_averaging as after_averaging
from lockstep.methods.local.fedprox import proximal_gradient as proximal_gradient
from lockstep.methods.local.outer import Outer as Outer
from lockstep.methods.local.scaffold import corrected_gradient as corrected_gradient
from lockstep.methods.local.scaffold import new_control as new_control
