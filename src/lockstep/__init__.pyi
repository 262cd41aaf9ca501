from . import (
    collectives as collectives,
)
from . import (
    failures as failures,
)
from . import (
    hardware as hardware,
)
from . import (
    layout as layout,
)
from . import (
    methods as methods,
)
from . import (
    parallel as parallel,
)
from . import (
    program as program,
)
from . import (
    simulate as simulate,
)
from . import (
    step as step,
)
from . import (
    validation as validation,
)
from . import (
    workload as workload,
)
from .verbs.balance import balance as balance
from .verbs.bench import bench as bench
from .verbs.calibrate import calibrate as calibrate
from .verbs.campaign import campaign as campaign
from .verbs.case import case as case
from .verbs.catalog import catalog as catalog
from .verbs.checkpoint import checkpoint as checkpoint
from .verbs.cite import cite as cite
from .verbs.claims import claims as claims
from .verbs.collective import collective as collective
from .verbs.compare import compare as compare
from .verbs.converge import converge as converge
from .verbs.crossover import crossover as crossover
from .verbs.diagnose import diagnose as diagnose
from .verbs.estimate import estimate as estimate
from .verbs.execute import execute as execute
from .verbs.experts import experts as experts
from .verbs.export import export as export
from .verbs.fit import fit as fit
from .verbs.guide import guide as guide
from .verbs.memory import memory as memory
from .verbs.messages import messages as messages
from .verbs.overlap import overlap as overlap
from .verbs.pipeline import pipeline as pipeline
from .verbs.plan import plan as plan
from .verbs.report import report as report
from .verbs.reproduce import reproduce as reproduce
from .verbs.rig import rig as rig
from .verbs.roofline import roofline as roofline
from .verbs.runs import runs as runs
from .verbs.scaling import scaling as scaling
from .verbs.sensitivity import sensitivity as sensitivity
from .verbs.speedup import speedup as speedup
from .verbs.stack import stack as stack
from .verbs.stragglers import stragglers as stragglers
from .verbs.support import support as support
from .verbs.sweeps import sweeps as sweeps
from .verbs.tensor import tensor as tensor
from .verbs.trace import trace as trace
from .verbs.train import train as train
from .verbs.ui import ui as ui
from .verbs.validate import validate as validate

__version__: str
