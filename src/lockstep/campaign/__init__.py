"""Campaigns: a whole training run from its first step to its target, what it takes, and what to change."""

from lockstep.campaign.campaign import Campaign as Campaign
from lockstep.campaign.campaign import campaign as campaign
from lockstep.campaign.changes import Change as Change
from lockstep.campaign.changes import changes as changes
from lockstep.campaign.energy import Energy as Energy
from lockstep.campaign.energy import energy as energy
from lockstep.campaign.offer import Market as Market
from lockstep.campaign.offer import Offer as Offer
from lockstep.campaign.operation import Operation as Operation
from lockstep.campaign.ramp import Ramp as Ramp
from lockstep.campaign.ramp import phases as phases
from lockstep.campaign.run import Run as Run
from lockstep.campaign.run import expected_run as expected_run
from lockstep.campaign.scaling_law import LAWS as LAWS
from lockstep.campaign.scaling_law import ScalingLaw as ScalingLaw
from lockstep.campaign.scaling_law import scaling_law as scaling_law
from lockstep.campaign.scenario import Scenario as Scenario
from lockstep.campaign.target import Target as Target
from lockstep.campaign.target import for_compute as for_compute
from lockstep.campaign.target import for_loss as for_loss
from lockstep.campaign.target import for_tokens as for_tokens
from lockstep.campaign.target import in_batches as in_batches
from lockstep.campaign.tornado import Bar as Bar
from lockstep.campaign.tornado import tornado as tornado
from lockstep.campaign.work import Work as Work
from lockstep.campaign.work import work as work
