"""Published measurements against predictions; the scripts of `tools/fit` fit constants to them."""

from lockstep.check.validation.case import Case as Case
from lockstep.check.validation.case import Table as Table
from lockstep.check.validation.ledger import Errors as Errors
from lockstep.check.validation.ledger import Group as Group
from lockstep.check.validation.ledger import Ledger as Ledger
from lockstep.check.validation.ledger import Sight as Sight
from lockstep.check.validation.ledger import first_sight as first_sight
from lockstep.check.validation.report import TABLES as TABLES
from lockstep.check.validation.report import Error as Error
from lockstep.check.validation.report import Report as Report
from lockstep.check.validation.report import StackReport as StackReport
from lockstep.check.validation.report import TableReport as TableReport
from lockstep.check.validation.report import validate as validate
