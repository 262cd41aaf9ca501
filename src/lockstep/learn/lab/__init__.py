"""The convergence lab: what staleness, local steps, compression, precision and batch size cost in steps.

An experiment is one file in its group's folder of `experiments/` and a name in `GROUPS`. It simulates, states the
law beside what it simulated, and says whether the two agree. `objectives` are what is minimized, `descent` how; `laws`
are what theory says in closed form, `statistics` are draws and intervals, `sweep` is many runs.
"""

from lockstep.learn.lab.experiment import EXPERIMENTS as EXPERIMENTS
from lockstep.learn.lab.experiment import GROUPS as GROUPS
from lockstep.learn.lab.experiment import Experiment as Experiment
from lockstep.learn.lab.experiment import Group as Group
from lockstep.learn.lab.experiment import Progress as Progress
from lockstep.learn.lab.experiment import each_run_once as each_run_once
from lockstep.learn.lab.experiment import find_experiment as find_experiment
from lockstep.learn.lab.experiment import find_group as find_group
from lockstep.learn.lab.experiment import is_group as is_group
from lockstep.learn.lab.experiment import watched as watched
from lockstep.learn.lab.findings import ALWAYS as ALWAYS
from lockstep.learn.lab.findings import Check as Check
from lockstep.learn.lab.findings import Curve as Curve
from lockstep.learn.lab.findings import Domain as Domain
from lockstep.learn.lab.findings import Findings as Findings
from lockstep.learn.lab.findings import Law as Law
from lockstep.learn.lab.findings import Picture as Picture
from lockstep.learn.lab.findings import absent as absent
from lockstep.learn.lab.findings import example as example
from lockstep.learn.lab.findings import tells as tells
from lockstep.learn.lab.findings import when as when
from lockstep.learn.lab.statistics import mean_and_error as mean_and_error
