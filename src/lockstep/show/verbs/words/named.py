"""Classes that options take and that only a type checker imports, so that declaring an option loads nothing.

At run time each is a stand-in of the same name: a value is one of it when a class of that name is among its own.
"""

from typing import TYPE_CHECKING


class Named:
    """Base of the stand-ins."""

    names: tuple[str, ...] = ()
    """Of the class that it stands for, or of those in a union."""


if TYPE_CHECKING:
    from lockstep.base.engines import Engine as Engine
    from lockstep.decide.planner.estimate import Estimate as Estimate
    from lockstep.decide.planner.result import Plan as Plan
    from lockstep.describe.hardware import Cluster as Cluster
    from lockstep.describe.workload import Model as Model
    from lockstep.explain.read import Known as Known
    from lockstep.price.layout import Layout as Layout
    from lockstep.simulate.play import Law as Law
else:

    def _named(name: str, module: str, *names: str) -> type[Named]:
        return type(name, (Named,), {"names": names or (name,), "__module__": f"lockstep.{module}"})

    Cluster = _named("Cluster", "describe.hardware.cluster")
    Engine = _named("Engine", "base.engines.engine")
    Estimate = _named("Estimate", "decide.planner.estimate")
    Known = _named("Known", "explain.read")
    Law = _named("Law", "simulate.play.law")
    Layout = _named("Layout", "price.layout.layout")
    Model = _named("Model", "describe.workload", "Transformer", "ConvNet")
    Plan = _named("Plan", "decide.planner.result")
