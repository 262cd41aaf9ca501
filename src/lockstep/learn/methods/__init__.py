"""The pieces that experiments and real training share: what one step does with a gradient, whoever computed it.

They take numpy arrays and torch tensors alike and hold no processes, files or clocks. `optimizers` turn gradients into
directions, `norms` are the geometry behind them, `learning_rate` and `critical_batch` say how a step should grow with
its batch. `compression` says what travels instead of a gradient; `loss_scaling` and `clip` keep gradients in range.
"""
