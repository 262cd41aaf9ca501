"""Sweeps: one experiment over many settings and seeds, on one process, on many, or on a cluster, with the same result.

A run is a `Trial` and knows nothing of the others; `engines` decide where trials run, `summary` joins them in the order
in which they were asked for.
"""

from lockstep.converge.sweep.engines import ENGINES as ENGINES
from lockstep.converge.sweep.engines import find_engine as find_engine
from lockstep.converge.sweep.grid import read_grid as read_grid
from lockstep.converge.sweep.summary import Point as Point
from lockstep.converge.sweep.summary import Pooled as Pooled
from lockstep.converge.sweep.summary import Sweep as Sweep
from lockstep.converge.sweep.sweep import sweep as sweep
from lockstep.converge.sweep.trial import Outcome as Outcome
from lockstep.converge.sweep.trial import Trial as Trial
from lockstep.converge.sweep.trial import run_trial as run_trial
