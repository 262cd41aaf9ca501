"""Whether this machine lets tests shape links."""

import pytest

from lockstep.run.rig import why_not

REASON = why_not()
permitted = pytest.mark.skipif(REASON is not None, reason=f"links cannot be shaped here: {REASON}")
