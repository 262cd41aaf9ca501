from .. import needs_torch as needs_torch
