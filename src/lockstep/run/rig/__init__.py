"""The rig: real traffic through links of a chosen rate and delay, on one machine; predictions beside measurements.

    with Rig(star_topology(5, rate_Bps=12.5e6, delay_s=5e-3)) as rig:
        found = race(rig, "all-reduce", Group(ranks=4, node_ranks=4), ("ring", "tree"), (65536,))
    found.laps[0].predicted_s, found.laps[0].measured_s

Hosts are network namespaces; a user-space process takes every packet through the links of its path. Linux, root.
"""

from lockstep.run.rig.calibration import Calibration, calibrate, trials
from lockstep.run.rig.capacity import Capacity, judged, measure_capacity
from lockstep.run.rig.entrants import SPECIAL, Group, entrant, entrants, usual_entrants
from lockstep.run.rig.experiment import expected_s, race
from lockstep.run.rig.namespace import inside, why_not
from lockstep.run.rig.result import Crossing, Lap, Race, tie_B
from lockstep.run.rig.rig import Counts, Rig

__all__ = [
    "SPECIAL",
    "Calibration",
    "Capacity",
    "Counts",
    "Crossing",
    "Group",
    "Lap",
    "Race",
    "Rig",
    "calibrate",
    "entrant",
    "entrants",
    "expected_s",
    "inside",
    "judged",
    "measure_capacity",
    "race",
    "tie_B",
    "trials",
    "usual_entrants",
    "why_not",
]
