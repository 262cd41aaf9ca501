"""Splitting samples over workers, from equal to one-class shards.

Every class is dealt to the workers in shares drawn from a Dirichlet law: a large concentration gives every worker the
same mix, a small one gives each few classes.

Source: T.-M. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical data distribution", 2019, section 3.
"""

from __future__ import annotations

import numpy as np

from lockstep.lab.findings import Array


def dirichlet_shards(classes: Array, workers: int, concentration: float, seed: int) -> list[Array]:
    """Places of the samples of each worker, which together are all samples once; no worker is left without any."""
    generator = np.random.default_rng(seed)
    owner = np.empty(len(classes), dtype=int)
    for one in np.unique(classes):
        members = generator.permutation(np.flatnonzero(classes == one))
        shares = generator.dirichlet(np.full(workers, concentration))
        cuts = np.round(np.cumsum(shares) * len(members)).astype(int)
        owner[members] = np.searchsorted(cuts[:-1], np.arange(len(members)), side="right")
    for worker in range(workers):
        if not (owner == worker).any():
            largest = np.bincount(owner, minlength=workers).argmax()
            owner[np.flatnonzero(owner == largest)[0]] = worker
    return [np.flatnonzero(owner == worker) for worker in range(workers)]
