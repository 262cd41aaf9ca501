"""The convergence lab: what staleness, local steps, compression, precision and batch size cost in steps.

An experiment is one file in its group's folder of `experiments/` and a line of `registry.py`. It simulates, states the
law beside what it simulated, and says whether the two agree. `objectives` are what is minimised, `descent` how; `laws`
are what theory says in closed form, `statistics` are draws and intervals, `sweep` is many runs.
"""

from lockstep.converge.domain import ALWAYS as ALWAYS
from lockstep.converge.domain import Domain as Domain
from lockstep.converge.domain import example as example
from lockstep.converge.domain import when as when
from lockstep.converge.experiment import Experiment as Experiment
from lockstep.converge.findings import Check as Check
from lockstep.converge.findings import Curve as Curve
from lockstep.converge.findings import Findings as Findings
from lockstep.converge.findings import Law as Law
from lockstep.converge.findings import Picture as Picture
from lockstep.converge.registry import EXPERIMENTS as EXPERIMENTS
from lockstep.converge.registry import GROUPS as GROUPS
from lockstep.converge.registry import Group as Group
from lockstep.converge.registry import find_experiment as find_experiment
from lockstep.converge.registry import find_group as find_group
from lockstep.converge.registry import is_group as is_group
