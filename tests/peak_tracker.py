"""torch's tracker of memory, without what it keeps of every module: half of its time, and no test asks for it."""

from __future__ import annotations

from functools import cache
from typing import Any


def peak_tracker() -> Any:
    """A `MemTracker` that knows what all tensors hold now, and the most that they held at once."""
    return _tracker()()


@cache
def _tracker() -> Any:
    from torch.distributed._tools.mem_tracker import MemTracker

    class PeakTracker(MemTracker):  # type: ignore[misc, unused-ignore]
        def _update_peak_stats(self, peak_state: Any) -> None:
            modules, self.memory_tracking = self.memory_tracking, {}
            try:
                super()._update_peak_stats(peak_state)
            finally:
                self.memory_tracking = modules

    return PeakTracker
