"""The decision guide: the field's rules for choosing a layout, as code that cites this job's and cluster's numbers."""

from lockstep.guide.difference import Difference as Difference
from lockstep.guide.draft import Draft as Draft
from lockstep.guide.draft import Finding as Finding
from lockstep.guide.draft import Rule as Rule
from lockstep.guide.guide import Guidance as Guidance
from lockstep.guide.guide import guide as guide
from lockstep.guide.rules import RULES as RULES
