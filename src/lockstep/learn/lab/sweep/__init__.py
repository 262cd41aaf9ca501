"""Sweeps: one experiment over many settings and seeds, on one process, on many, or on a cluster, with the same result.

A run is a `Trial` and knows nothing of the others; `lockstep.base.engines` decides where trials run, `summary` joins
them in the order in which they were asked for.
"""

from lockstep.learn.lab.sweep.run import sweep as sweep
from lockstep.learn.lab.sweep.summary import Point as Point
from lockstep.learn.lab.sweep.summary import Pooled as Pooled
from lockstep.learn.lab.sweep.summary import Sweep as Sweep
from lockstep.learn.lab.sweep.trial import Outcome as Outcome
from lockstep.learn.lab.sweep.trial import Trial as Trial
from lockstep.learn.lab.sweep.trial import Trials as Trials
from lockstep.learn.lab.sweep.trial import read_grid as read_grid
from lockstep.learn.lab.sweep.trial import run_trial as run_trial
