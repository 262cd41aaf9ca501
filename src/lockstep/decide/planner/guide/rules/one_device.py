"""Does a whole replica fit in one device?

    states = (parameter + gradient + optimizer bytes) x parameters,       needed = states + activations + buffers
If so, plain data parallelism is enough. Number of parameters alone ("below 10B use DDP") says little: 2.5B parameters
take a 40 GB device at 16 bytes each, and activations are not in that.
Source: ZeRO (S. Rajbhandari et al., arXiv 1910.02054), section 3.
"""

from __future__ import annotations

from lockstep.base.units import format_size
from lockstep.decide.planner.guide.draft import RECOMPUTED, Draft, Finding, Rule, first_that_fits


def decide(draft: Draft) -> Finding:
    """Looks at one device that holds everything, with as little recomputation as will do."""
    alone = [draft.change(recompute=each) for each in RECOMPUTED if each != "full" or draft.job.transformer]
    held = alone[-1].memory
    states_B = float(held.parameters_B + held.gradients_B + held.optimizer_B)
    capacity_B, rest_B = draft.cluster.device.memory_B, float(held.total_B) - states_B
    numbers = {"states_B": states_B, "rest_B": rest_B, "capacity_B": capacity_B}
    states, rest = format_size(states_B), format_size(rest_B)
    size = f"{states} of parameters, gradients and optimizer state plus at least {rest}"
    found = first_that_fits(alone)
    if found is None:
        return Finding("no", f"{size}; the device has {format_size(capacity_B)}", draft, numbers)
    return Finding("yes", f"{size} fit in {format_size(capacity_B)}", found, numbers)


RULE = Rule("one device", "Does the model fit in one device?", "ZeRO, arXiv 1910.02054, section 3", decide)
