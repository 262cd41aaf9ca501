"""Local steps (DiLoCo): groups of ranks train apart and agree once in K steps.

Inside a group, gradients travel as its sharding says. Every K steps groups average what they changed: an all-reduce of
each rank's part between groups, in as many bytes as gradients take on the wire, after the update and beside nothing. An
outer optimizer with Nesterov momentum then moves the parameters that all agreed on: OUTER_STATE_B more per parameter, a
copy of those and the momentum in fp32, which the outer update reads and writes once. A step here is the mean of K.

What such training loses or gains in convergence is no part of a step.

Source: A. Douillard et al., "DiLoCo: distributed low-communication training of language models" (arXiv 2311.08105),
algorithm 1; S. Jaghouar et al., "OpenDiLoCo" (arXiv 2407.07852) section 3 for groups that shard inside.
"""

from __future__ import annotations

OUTER_STATE_B = 4.0 + 4.0
"""Bytes per parameter of the copy that all groups agreed on, and of the outer momentum."""
OUTER_UPDATE_B = 2.0 * OUTER_STATE_B + 4.0
"""Bytes per parameter that the outer update moves: both states read and written, the change read."""
