"""One BLAS thread for the experiments and questions that Lockstep computes itself.

Their products are small: more threads mostly wait for each other, and spin where the cores are taken. One thread also
gives the same last bits on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While it lasts, BLAS computes on one thread; afterwards on as many as before.

    The number is one of the process. Of several threads that are inside together the first decides.
    """
    import numpy  # noqa: F401  (its BLAS must be there to be limited)
    from threadpoolctl import threadpool_limits

    # Libraries are looked up each time, in a third of a millisecond: more may have been loaded.
    with threadpool_limits(limits=1, user_api="blas"):
        yield
