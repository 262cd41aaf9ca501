"""What is minimised: objectives whose optimum, curvature and gradient noise are known, or measured and said so."""

from lockstep.converge.objectives.landscapes import LANDSCAPES as LANDSCAPES
from lockstep.converge.objectives.landscapes import Landscape as Landscape
from lockstep.converge.objectives.logistic import Logistic as Logistic
from lockstep.converge.objectives.logistic import digits_logistic as digits_logistic
from lockstep.converge.objectives.objective import Objective as Objective
from lockstep.converge.objectives.objective import sharpness as sharpness
from lockstep.converge.objectives.perceptron import Perceptron as Perceptron
from lockstep.converge.objectives.perceptron import digits_perceptron as digits_perceptron
from lockstep.converge.objectives.quadratic import Quadratic as Quadratic
from lockstep.converge.objectives.quadratic import spectrum as spectrum
from lockstep.converge.objectives.shards import dirichlet_shards as dirichlet_shards
from lockstep.converge.objectives.workers import WorkerQuadratics as WorkerQuadratics
from lockstep.converge.objectives.workers import unequal_workers as unequal_workers
