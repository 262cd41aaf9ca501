"""Published training runs as case studies: predicted beside published, with signed errors and what is unknown."""

from lockstep.cases.compare import TOLERANCE_FRAC as TOLERANCE_FRAC
from lockstep.cases.compare import Comparison as Comparison
from lockstep.cases.compare import Row as Row
from lockstep.cases.compare import Survey as Survey
from lockstep.cases.compare import compare as compare
from lockstep.cases.compare import survey as survey
from lockstep.cases.predict import Prediction as Prediction
from lockstep.cases.predict import predict as predict
from lockstep.cases.schema import names as names
from lockstep.cases.schema import study as study
from lockstep.cases.study import Published as Published
from lockstep.cases.study import Stretch as Stretch
from lockstep.cases.study import Study as Study
