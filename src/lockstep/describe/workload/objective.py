"""`Objective`: what post-training adds to a training step: frozen copies of the model, passes of them, generation.

    objective  frozen copies held      forward passes of a sequence                            trained models
    (none)     -                       1                                                       1
    dpo        reference               2: the model and the reference                          1
    grpo       reference               3: the model, the one that generated, the reference     1
    ppo        reference, reward       6: these, the reward, the critic when it rates and      2: model and critic
                                       when it learns

Each of these models has the shape of the one trained. A reference that is precomputed, left out (`reference=none`) or
on other devices (`reference=apart`) costs nothing; beside adapters the frozen weights themselves are the reference, and
no copy is held. The critic starts as the reward model, so beside adapters it has frozen weights of its own, and
adapters like the model's (OpenRLHF's --lora_rank is of both). `reward=model` adds a reward model to grpo, whose rewards
otherwise come from rules; `reward=apart` leaves ppo's to other devices. Where devices also generate, `generation=60%`
of a step's time passes before what is priced: serving is another subject, so this is given.

Sources: DPO, arXiv 2305.18290, equation 7; PPO for language models, arXiv 2203.02155, section 3.5; GRPO, arXiv
2402.03300, section 4.1 and equation 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.units import parse_frac
from lockstep.describe.workload.adapters import Adapters, read_adapters

REFERENCES = ("model", "none", "precomputed", "apart")
REWARDS = ("model", "none", "apart")
SETTINGS = {"dpo": ("reference",), "grpo": ("reference", "reward", "generation"),
            "ppo": ("reference", "reward", "generation")}  # fmt: skip
PARTS = ("full", "lora", "dpo", "grpo", "ppo")
"""What `--train` names: the parameters that are trained, and an objective."""
MOST_GENERATION_FRAC = 0.99


@dataclass(frozen=True, slots=True)
class Objective:
    """What a step does besides passing its sequences through the model and back."""

    name: str
    forwards: int
    """Forward passes of every sequence, through whichever model."""
    models: int = 1
    """Models that are trained, each with states and a backward pass of its own."""
    bare: int = 0
    """Of the forward passes, those of frozen weights without the adapters beside them."""
    frozen: int = 0
    """Frozen copies of the whole model that are held."""
    pair: int = 1
    """Sequences that belong together: a chosen and a rejected answer."""
    generation_frac: float = 0.0
    """Share of the step's time in which devices generate."""
    elsewhere: tuple[str, ...] = ()
    """What the objective needs besides, which neither takes time nor memory here."""

    @property
    def passes(self) -> tuple[int, int]:
        """(forward, backward) passes of every sequence, through whichever model."""
        return self.forwards, self.models

    def describe(self) -> str:
        """A short description."""
        passes = f"{self.name}: each sequence passes {self.forwards} models forward and {self.models} back"
        copies = f"; {self.frozen} frozen {'copies' if self.frozen > 1 else 'copy'} of the model held"
        return passes + copies * bool(self.frozen)


PLAIN = Objective("next token", 1)


@dataclass(frozen=True, slots=True)
class Training:
    """What `--train` says."""

    adapters: Adapters | None
    """What is trained instead of the model's own weights; None where these are."""
    objective: Objective


FULL_TRAINING = Training(None, PLAIN)


@lru_cache(maxsize=64)
def read_training(text: str, where: str | None = "--train") -> Training:
    """What `full`, `lora:r=16`, `dpo` or `grpo:generation=60%,lora:r=16` trains. Raises BadInput, UnknownName."""
    parts = _parts(text, where)
    objectives = [name for name in parts if name in PARTS[2:]]
    if len(objectives) > 1 or {"full", "lora"} <= set(parts):
        raise BadInput(f"{' and '.join(parts)} do not go together", where)
    adapters = read_adapters(parts["lora"], where) if "lora" in parts else None
    if parts.get("full", "full") != "full":
        raise BadInput(f"full takes no settings, got {parts['full']!r}", where)
    if not objectives:
        return Training(adapters, PLAIN)
    return Training(adapters, _objective(objectives[0], parts[objectives[0]], adapters, where))


def _parts(text: str, where: str | None) -> dict[str, str]:
    """The parts of `dpo:reference=none,lora:r=16` by name: settings follow the name they belong to."""
    found: dict[str, str] = {}
    name = ""
    for piece in text.split(","):
        head = piece.partition(":")[0].strip()
        if "=" in head and name:
            found[name] += f",{piece}" if ":" in found[name] else f":{piece}"
            continue
        if head not in PARTS:
            raise UnknownName("thing to train", head, PARTS, where)
        if head in found:
            raise BadInput(f"{head} is set twice", where)
        name = head
        found[name] = piece.strip()
    return found


def _objective(name: str, text: str, adapters: Adapters | None, where: str | None) -> Objective:
    """The objective `name` with the settings in `text`."""
    given = dict(part.strip().partition("=")[::2] for part in text.partition(":")[2].split(",") if part)
    if unknown := sorted(set(given) - set(SETTINGS[name])):
        raise UnknownName(f"setting of {name}", unknown[0], SETTINGS[name], where)
    reference, reward = given.get("reference", "model"), given.get("reward", "model" if name == "ppo" else "none")
    for what, value, allowed in (("reference", reference, REFERENCES), ("reward", reward, REWARDS)):
        if value not in allowed:
            raise UnknownName(what, value, allowed, where)
    refers, rewards = reference == "model", int(reward == "model")
    held = int(refers and adapters is None)
    bare = refers - held
    if name == "dpo":
        return Objective(name, 1 + refers, bare=bare, frozen=held, pair=2, elsewhere=_elsewhere(reference, "", 1.0))
    generation_frac = parse_frac(given.get("generation", "0"), where)
    if not 0 <= generation_frac <= MOST_GENERATION_FRAC:
        raise BadInput(f"generation must be from 0 to {MOST_GENERATION_FRAC:.0%} of the step's time", where)
    models, passes = (1, 2) if name == "grpo" else (2, 4)
    bare += rewards * (adapters is not None)
    return Objective(
        name, passes + refers + rewards, models, bare, held + rewards,
        generation_frac=generation_frac,
        elsewhere=(*_elsewhere(reference, reward, generation_frac), "the memory of the engine that generates"),
    )  # fmt: skip


def _elsewhere(reference: str, reward: str, generation_frac: float) -> tuple[str, ...]:
    """What is not counted of a reference, of rewards and of generation: of those settings that leave it out."""
    found = {
        "the time to generate answers": generation_frac == 0,
        "the reference model, which is on other devices": reference == "apart",
        "the passes that precompute the reference": reference == "precomputed",
        "the reward model, which is on other devices": reward == "apart",
        "rewards by rules": reward == "none",
    }
    return tuple(name for name, left_out in found.items() if left_out)
