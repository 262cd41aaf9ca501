"""What is minimized: objectives whose optimum, curvature and gradient noise are known, or measured and said so."""

from lockstep.learn.lab.objectives.logistic import Logistic as Logistic
from lockstep.learn.lab.objectives.logistic import Perceptron as Perceptron
from lockstep.learn.lab.objectives.logistic import digits_logistic as digits_logistic
from lockstep.learn.lab.objectives.logistic import digits_perceptron as digits_perceptron
from lockstep.learn.lab.objectives.objective import LANDSCAPES as LANDSCAPES
from lockstep.learn.lab.objectives.objective import Landscape as Landscape
from lockstep.learn.lab.objectives.objective import Objective as Objective
from lockstep.learn.lab.objectives.objective import sharpness as sharpness
from lockstep.learn.lab.objectives.quadratic import Quadratic as Quadratic
from lockstep.learn.lab.objectives.quadratic import spectrum as spectrum
from lockstep.learn.lab.objectives.workers import WorkerQuadratics as WorkerQuadratics
from lockstep.learn.lab.objectives.workers import dirichlet_shards as dirichlet_shards
from lockstep.learn.lab.objectives.workers import unequal_workers as unequal_workers
