"""PEFT's methods beside LoRA as `--train` has them: what files switch on of DoRA, rsLoRA, PiSSA, OFT and VeRA.

What Lockstep does not price together is said: DoRA, OFT, VeRA and parameters of experts beside a quantised base.
"""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload.adapters import PARAMETERS

PISSA = "pissa"
"""What `init_lora_weights` begins with: pissa, and pissa_niter_16 with fewer iterations."""


def settings_of_lora(said: Said, words: Mapping[str, str], dropout: str, base: str | None) -> str:
    """The settings of lora besides rank, targets and dropout. Raises BadInput for what PEFT refuses.

    `words` are those of the file for dora, rslora, init, pissa and parameters, as far as its software has them.
    """
    found = []
    if said[words["dora"]]:
        if base is None:
            found.append("dora=yes")
        else:
            said.leave(words["dora"], "DoRA beside a quantised base; LoRA is taken")
    if said[words["rslora"]]:
        found.append("rslora=yes")
    began = str(said[words["init"]]).lower() if "init" in words else ""
    if began.startswith(PISSA) or ("pissa" in words and said[words["pissa"]]):
        found.append("init=pissa")
    named = _parameters(said, words["parameters"], base) if "parameters" in words else ()
    if named:
        if said[dropout]:
            raise said.refuse(words["parameters"], f"needs {dropout}: 0, as peft has no dropout on parameters")
        found.append(f"parameters={'+'.join(named)}")
    return "".join(f",{one}" for one in found)


def _parameters(said: Said, word: str, base: str | None) -> tuple[str, ...]:
    """Parameters of experts that adapters are on; notes those that have no name here."""
    given = said[word] or ()
    each = [one.strip() for one in given.split(",")] if isinstance(given, str) else [str(one) for one in given]
    last = {one: one.rpartition("experts.")[2] for one in each}
    missing = [one for one, name in last.items() if name not in PARAMETERS]
    if each and base is not None:
        said.leave(word, "adapters on parameters beside a quantised base")
        return ()
    if missing:
        said.leave(word, f"adapters on {', '.join(missing)}")
    return tuple(dict.fromkeys(name for name in last.values() if name in PARAMETERS))
