"""Planning: the space of layouts, the exact search, estimates, rooflines, sensitivities, upgrades and exports."""

from lockstep.plan.assumptions import assumptions as assumptions
from lockstep.plan.estimate import Estimate as Estimate
from lockstep.plan.estimate import estimate as estimate
from lockstep.plan.estimate import require_fit as require_fit
from lockstep.plan.estimate import stage_memories as stage_memories
from lockstep.plan.plan import OBJECTIVES as OBJECTIVES
from lockstep.plan.plan import Plan as Plan
from lockstep.plan.plan import plan as plan
from lockstep.plan.search import Findings as Findings
from lockstep.plan.search import Scored as Scored
from lockstep.plan.search import search as search
from lockstep.plan.space import Space as Space
from lockstep.plan.space import default_space as default_space
