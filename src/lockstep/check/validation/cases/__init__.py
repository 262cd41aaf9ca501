"""Published training runs as case studies: predicted beside published, with signed errors and what is unknown."""

from lockstep.check.validation.cases.compare import TOLERANCE_FRAC as TOLERANCE_FRAC
from lockstep.check.validation.cases.compare import Comparison as Comparison
from lockstep.check.validation.cases.compare import Row as Row
from lockstep.check.validation.cases.compare import Survey as Survey
from lockstep.check.validation.cases.compare import compare as compare
from lockstep.check.validation.cases.compare import survey as survey
from lockstep.check.validation.cases.predict import Prediction as Prediction
from lockstep.check.validation.cases.predict import predict as predict
from lockstep.check.validation.cases.schema import names as names
from lockstep.check.validation.cases.schema import study as study
from lockstep.check.validation.cases.study import Published as Published
from lockstep.check.validation.cases.study import Stretch as Stretch
from lockstep.check.validation.cases.study import Study as Study
