"""The decision guide: the field's rules for choosing a layout, as code that cites this job's and cluster's numbers."""

from lockstep.planner.guide.difference import Difference as Difference
from lockstep.planner.guide.draft import Draft as Draft
from lockstep.planner.guide.draft import Finding as Finding
from lockstep.planner.guide.draft import Rule as Rule
from lockstep.planner.guide.guide import Guidance as Guidance
from lockstep.planner.guide.guide import guide as guide
from lockstep.planner.guide.rules import RULES as RULES
