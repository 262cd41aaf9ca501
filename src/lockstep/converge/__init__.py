"""The convergence lab: what staleness, local steps, compression, precision and batch size cost in steps.

An experiment is one file of `experiments/` and one line of `registry.py`. It simulates, states the law beside what it
simulated, and says whether the two agree.
"""

from lockstep.converge.experiment import Experiment as Experiment
from lockstep.converge.findings import Check as Check
from lockstep.converge.findings import Curve as Curve
from lockstep.converge.findings import Findings as Findings
from lockstep.converge.findings import Law as Law
from lockstep.converge.findings import Picture as Picture
from lockstep.converge.registry import EXPERIMENTS as EXPERIMENTS
from lockstep.converge.registry import all_experiments as all_experiments
from lockstep.converge.registry import find_experiment as find_experiment
from lockstep.converge.settings import read_settings as read_settings
from lockstep.converge.settings import setting as setting
