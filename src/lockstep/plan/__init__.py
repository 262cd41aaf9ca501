"""Planning: the space of layouts, the exact search, estimates, rooflines, sensitivities, upgrades and exports."""

from lockstep.plan.assumptions import assumptions as assumptions
from lockstep.plan.assumptions import memory_assumptions as memory_assumptions
from lockstep.plan.citations import Citation as Citation
from lockstep.plan.citations import bibliography as bibliography
from lockstep.plan.citations import citations as citations
from lockstep.plan.estimate import Estimate as Estimate
from lockstep.plan.estimate import estimate as estimate
from lockstep.plan.estimate import stage_memories as stage_memories
from lockstep.plan.export import TARGETS as TARGETS
from lockstep.plan.export import best_for as best_for
from lockstep.plan.export import export as export
from lockstep.plan.goal import OBJECTIVES as OBJECTIVES
from lockstep.plan.plan import plan as plan
from lockstep.plan.result import Plan as Plan
from lockstep.plan.roofline import Roofline as Roofline
from lockstep.plan.roofline import roofline as roofline
from lockstep.plan.search import Findings as Findings
from lockstep.plan.search import Scored as Scored
from lockstep.plan.search import search as search
from lockstep.plan.sensitivity import Sensitivity as Sensitivity
from lockstep.plan.sensitivity import sensitivity as sensitivity
from lockstep.plan.space import Space as Space
from lockstep.plan.space import default_space as default_space
from lockstep.plan.upgrades import Upgrade as Upgrade
from lockstep.plan.upgrades import Upgrades as Upgrades
from lockstep.plan.upgrades import upgrades as upgrades
