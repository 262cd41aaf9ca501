"""The convergence lab: what staleness, local steps, compression, precision and batch size cost in steps.

An experiment is one file in its group's folder of `experiments/` and a name in `GROUPS`. It simulates, states the
law beside what it simulated, and says whether the two agree. `objectives` are what is minimized, `descent` how; `laws`
are what theory says in closed form, `statistics` are draws and intervals, `sweep` is many runs.
"""

from lockstep.lab.experiment import EXPERIMENTS as EXPERIMENTS
from lockstep.lab.experiment import GROUPS as GROUPS
from lockstep.lab.experiment import Experiment as Experiment
from lockstep.lab.experiment import Group as Group
from lockstep.lab.experiment import Progress as Progress
from lockstep.lab.experiment import each_run_once as each_run_once
from lockstep.lab.experiment import find_experiment as find_experiment
from lockstep.lab.experiment import find_group as find_group
from lockstep.lab.experiment import is_group as is_group
from lockstep.lab.experiment import watched as watched
from lockstep.lab.findings import ALWAYS as ALWAYS
from lockstep.lab.findings import Check as Check
from lockstep.lab.findings import Curve as Curve
from lockstep.lab.findings import Domain as Domain
from lockstep.lab.findings import Findings as Findings
from lockstep.lab.findings import Law as Law
from lockstep.lab.findings import Picture as Picture
from lockstep.lab.findings import absent as absent
from lockstep.lab.findings import example as example
from lockstep.lab.findings import tells as tells
from lockstep.lab.findings import when as when
from lockstep.lab.statistics import mean_and_error as mean_and_error
