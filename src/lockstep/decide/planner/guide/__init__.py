"""The decision guide: the field's rules for choosing a layout, as code that cites this job's and cluster's numbers."""

from lockstep.decide.planner.guide.difference import Difference as Difference
from lockstep.decide.planner.guide.draft import Draft as Draft
from lockstep.decide.planner.guide.draft import Finding as Finding
from lockstep.decide.planner.guide.draft import Rule as Rule
from lockstep.decide.planner.guide.guide import Guidance as Guidance
from lockstep.decide.planner.guide.guide import guide as guide
from lockstep.decide.planner.guide.rules import RULES as RULES
