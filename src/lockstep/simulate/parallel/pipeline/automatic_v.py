"""Automatic order for two chunks in a V (zb-v): its F and I passes, with W put where a device would wait anyway.

Every device keeps the order of F and I of the hand-made schedule, which sets who waits for whom, and decides anew
where the weight gradients go (`filling.py`), holding at most p micro-batches: the memory of 1F1B. The order with the
shortest longest device time (`stage_s`) over a small grid of `patience` wins, the hand-made one included; ties: the
first.

Source: after Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241), section 6; the decisions are our
own. With F, I, W = 1000, 1200, 800 per device, messages of 50, p = 8 and m = 24: 5.8 %, printed 5.9, hand-made 6.25.
"""

from __future__ import annotations

from lockstep.simulate.parallel.pipeline.construct import pass_seconds
from lockstep.simulate.parallel.pipeline.filling import Filling
from lockstep.simulate.parallel.pipeline.replay import order_spans_s
from lockstep.simulate.parallel.pipeline.schedule import Order
from lockstep.simulate.parallel.pipeline.schedules.zero_bubble_v import ZERO_BUBBLE_V
from lockstep.simulate.parallel.pipeline.times import Times

PATIENCE = (0.25, 0.5, 0.75, 1.0)


def automatic_v_order(stages: int, microbatches: int, times: Times) -> Order:
    """The best order found for overlapped messages; `program_of` with ZERO_BUBBLE_V and two chunks makes the program.

    Stages may have times of their own.
    """
    best = ZERO_BUBBLE_V.order(stages, microbatches, 2)
    start_s, end_s = order_spans_s(ZERO_BUBBLE_V, best, 2, times)
    best_s = float((end_s - start_s).max())
    hand_made = [[step for step in lane if step[0] != "W"] for lane in best]
    seconds, delay_s = pass_seconds(ZERO_BUBBLE_V, stages, 2, times), float(times.delay_s(stages))
    for patience in PATIENCE:
        filling = Filling(hand_made, seconds, delay_s, patience, 2 * stages)
        order = filling.play()
        if filling.stage_s < best_s * (1 - 1e-12):
            best, best_s = order, filling.stage_s
    return best
