"""Published training runs as case studies: predicted beside published, with signed errors and what is unknown."""

from lockstep.validation.cases.compare import TOLERANCE_FRAC as TOLERANCE_FRAC
from lockstep.validation.cases.compare import Comparison as Comparison
from lockstep.validation.cases.compare import Row as Row
from lockstep.validation.cases.compare import Survey as Survey
from lockstep.validation.cases.compare import compare as compare
from lockstep.validation.cases.compare import survey as survey
from lockstep.validation.cases.predict import Prediction as Prediction
from lockstep.validation.cases.predict import predict as predict
from lockstep.validation.cases.schema import names as names
from lockstep.validation.cases.schema import study as study
from lockstep.validation.cases.study import Published as Published
from lockstep.validation.cases.study import Stretch as Stretch
from lockstep.validation.cases.study import Study as Study
