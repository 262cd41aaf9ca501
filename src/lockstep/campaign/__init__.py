"""The whole run: what fails, how often to save, and what is left of the time."""

from lockstep.campaign.failures import KINDS, Cause, Failures, composed, finish_probability_frac, of_cluster
from lockstep.campaign.interruptions import Interruption, Observed, llama3
from lockstep.campaign.laws import GapLaw, Weibull, parse_gap_law
from lockstep.campaign.peer_copies import copy_time_s, recoverable_frac, survival_frac

__all__ = [
    "KINDS",
    "Cause",
    "Failures",
    "GapLaw",
    "Interruption",
    "Observed",
    "Weibull",
    "composed",
    "copy_time_s",
    "finish_probability_frac",
    "llama3",
    "of_cluster",
    "parse_gap_law",
    "recoverable_frac",
    "survival_frac",
]
