"""Where two runs part, from what was kept of them: the first step and tensor, and what the difference looks like."""

from lockstep.run.partings.cause import CAUSES as CAUSES
from lockstep.run.partings.compared import Compared as Compared
from lockstep.run.partings.compared import apart as apart
from lockstep.run.partings.compared import compare as compare
from lockstep.run.partings.read import read_record as read_record
from lockstep.run.partings.record import Record as Record
