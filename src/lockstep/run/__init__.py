"""Real runs: programs, collectives, kernels and training on real processes through torch.distributed.

`launch` starts the ranks and tells which of them failed, where and why; everything else here is a worker for it.
"""
