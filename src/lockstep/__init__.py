"""Lockstep plans, prices, simulates and measures distributed training.

    import lockstep
    plan = lockstep.plan("llama3-70b", "dgx-h100:64", batch_tokens="4M", tokens="15T")
    print(plan.verdict())

Every verb of the command line is a function here with the same name and words (`lockstep.show.verbs`); results have
`to_dict()`, which is what `--json` prints. `__init__.pyi` lists what is public. Nothing is loaded before it is used,
so that the import costs nothing.
"""

from lazy_loader import attach_stub

from lockstep.base.types.upper import stands_at

stands_at(
    catalog="lockstep.describe.hardware", page="lockstep.show.web.serve", views="lockstep.show.views.parts.notebook"
)
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
__version__ = "0.1.0"
