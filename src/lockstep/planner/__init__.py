"""Planning: the space of layouts, the exact search, estimates, rooflines, sensitivities, upgrades and exports."""

from lockstep.planner.assumptions import assumptions as assumptions
from lockstep.planner.assumptions import memory_assumptions as memory_assumptions
from lockstep.planner.citations import Citation as Citation
from lockstep.planner.citations import bibliography as bibliography
from lockstep.planner.citations import citations as citations
from lockstep.planner.estimate import Estimate as Estimate
from lockstep.planner.estimate import estimate as estimate
from lockstep.planner.estimate import stage_memories as stage_memories
from lockstep.planner.export import TARGETS as TARGETS
from lockstep.planner.export import best_for as best_for
from lockstep.planner.export import export as export
from lockstep.planner.goal import OBJECTIVES as OBJECTIVES
from lockstep.planner.plan import plan as plan
from lockstep.planner.result import Plan as Plan
from lockstep.planner.roofline import Roofline as Roofline
from lockstep.planner.roofline import roofline as roofline
from lockstep.planner.search import Findings as Findings
from lockstep.planner.search import Scored as Scored
from lockstep.planner.search import search as search
from lockstep.planner.sensitivity import Sensitivity as Sensitivity
from lockstep.planner.sensitivity import sensitivity as sensitivity
from lockstep.planner.space import Space as Space
from lockstep.planner.space import default_space as default_space
from lockstep.planner.upgrades import Upgrade as Upgrade
from lockstep.planner.upgrades import Upgrades as Upgrades
from lockstep.planner.upgrades import upgrades as upgrades
