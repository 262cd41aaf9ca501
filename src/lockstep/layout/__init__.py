"""Layouts, the rank grid and its process groups, the rules they obey, and memory per rank."""

from lockstep.layout.groups import GROUPS as GROUPS
from lockstep.layout.groups import Span as Span
from lockstep.layout.groups import coordinates as coordinates
from lockstep.layout.groups import process_groups as process_groups
from lockstep.layout.groups import span as span
from lockstep.layout.job import Job as Job
from lockstep.layout.job import LayerKind as LayerKind
from lockstep.layout.layout import AXES as AXES
from lockstep.layout.layout import KEEP as KEEP
from lockstep.layout.layout import OFFLOAD_OPTIMIZER as OFFLOAD_OPTIMIZER
from lockstep.layout.layout import OFFLOAD_PARAMETERS as OFFLOAD_PARAMETERS
from lockstep.layout.layout import Layout as Layout
from lockstep.layout.layout import LayoutGrid as LayoutGrid
from lockstep.layout.memory import Memory as Memory
from lockstep.layout.memory import layer_parameters as layer_parameters
from lockstep.layout.memory import memory as memory
from lockstep.layout.memory import stage_memory as stage_memory
from lockstep.layout.memory import stage_parameters as stage_parameters
from lockstep.layout.memory import telling_stages as telling_stages
from lockstep.layout.recipe import OPTIMIZERS as OPTIMIZERS
from lockstep.layout.recipe import Optimizer as Optimizer
from lockstep.layout.recipe import Recipe as Recipe
from lockstep.layout.rules import RULES as RULES
from lockstep.layout.rules import broken_rules as broken_rules
from lockstep.layout.rules import check as check
from lockstep.layout.rules import divisors as divisors
