"""Programs on real ranks: point-to-point sends, checked results, measured timelines.

execute(program, op="all-reduce", algorithm="ring", elems=1000).measured    -> Timeline
"""

from lockstep.run.execute.exchange import exchange_samples
from lockstep.run.execute.execute import Execution, execute
from lockstep.run.execute.runner import Runner, Spans

__all__ = ["Execution", "Runner", "Spans", "exchange_samples", "execute"]
