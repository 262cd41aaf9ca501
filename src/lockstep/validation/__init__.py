"""Published measurements against predictions; the scripts of `tools/fit` fit constants to them."""

from lockstep.validation.case import Case as Case
from lockstep.validation.case import Table as Table
from lockstep.validation.report import TABLES as TABLES
from lockstep.validation.report import Error as Error
from lockstep.validation.report import Report as Report
from lockstep.validation.report import StackReport as StackReport
from lockstep.validation.report import TableReport as TableReport
from lockstep.validation.report import validate as validate
