"""`Objective`: what post-training adds to a training step: frozen copies of the model, passes of them, generation.

    objective  frozen copies held      forward passes of a sequence                            trained models
    (none)     -                       1                                                       1
    dpo        reference               2: the model and the reference                          1
    kto        reference               4: these, and both without gradients on the answers     1
                                       to other prompts (`kl=none`: 2)
    reward     -                       1                                                       1
    grpo       reference               3: the model, the one that generated, the reference     1
    rloo       reference               3: as grpo                                              1
    ppo        reference, reward       6: these, the reward, the critic when it rates and      2: model and critic
                                       when it learns

Each of these models has the shape of the one trained. A reference that is precomputed, left out (`reference=none`) or
on other devices (`reference=apart`) costs nothing; beside adapters the frozen weights themselves are the reference, and
no copy is held. The critic starts as the reward model, so beside adapters it has frozen weights of its own, and
adapters like the model's (OpenRLHF's --lora_rank is of both). `reward=model` adds a reward model to grpo, whose rewards
otherwise come from rules; `reward=apart` leaves ppo's to other devices. Where devices also generate, `generation=60%`
of a step's time passes before what is priced: serving is another subject, so this is given.

Of grpo and rloo, software decides which passes exist, so a stack may have defaults of its own (`[STACK.train]` of
`describe/stacks/stacks.toml`). A reference exists where `beta`, the weight of the divergence from it, is not 0. Answers
are generated for B / (accumulation) * steps-per-generation sequences at a time and used `iterations` times; what passes
them once without gradients is shared by these uses. The pass of the model that generated is left out with `old=never`,
and with `old=if-needed` where each update sees only answers of the model as it is:

    accumulation mod (steps per generation * iterations) = 0

with steps per generation = accumulation where none are given, in micro-batches; `generation-batch` gives them in
sequences of all devices, and `generations` how many of these answer one prompt. `paper` before other settings is
the form of the paper, whatever the software.

Sources: DPO, arXiv 2305.18290, equation 7; KTO, arXiv 2402.01306, section 4.1; PPO for language models, arXiv
2203.02155, section 3.5; GRPO, arXiv 2402.03300, section 4.1 and equation 3; RLOO, arXiv 2402.14740, section 4; TRL
1.16.0, trl/trainer/grpo_trainer.py (_generate_and_score_completions), rloo_trainer.py, kto_trainer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.units import parse_frac, parse_number
from lockstep.describe.workload.adapter_words import read_adapters
from lockstep.describe.workload.adapters import Adapters
from lockstep.describe.workload.methods import METHODS

REFERENCES = ("model", "none", "precomputed", "apart")
REWARDS = ("model", "none", "apart")
OLD = ("always", "never", "if-needed")
_GENERATES = ("reference", "reward", "generation", "beta", "old", "iterations", "steps-per-generation",
              "generation-batch", "generations", "paper")  # fmt: skip
SETTINGS = {"dpo": ("reference",), "kto": ("reference", "kl"), "reward": (), "grpo": _GENERATES, "rloo": _GENERATES,
            "ppo": ("reference", "reward", "generation")}  # fmt: skip
PAPERS = {"grpo": "old=always,reference=model", "rloo": "old=always,reference=model"}
PARTS = ("full", *METHODS, *SETTINGS)
"""What `--train` names: the parameters that are trained, and an objective."""
MOST_GENERATION_FRAC = 0.99
ASKED = ("yes", "no")
REFERENCE, GENERATED = "the reference", "the model that generated"


@dataclass(frozen=True, slots=True)
class Objective:
    """What a step does besides passing its sequences through the model and back."""

    name: str
    forwards: float
    """Forward passes of every sequence, through whichever model, beside the one that `every` decides on."""
    models: int = 1
    """Models that are trained, each with states and a backward pass of its own."""
    bare: float = 0
    """Of the forward passes, those of frozen weights without the adapters beside them."""
    frozen: int = 0
    """Frozen copies of the whole model that are held."""
    pair: int = 1
    """Sequences that belong together: a chosen and a rejected answer."""
    generation_frac: float = 0.0
    """Share of the step's time in which devices generate."""
    elsewhere: tuple[str, ...] = ()
    """What the objective needs besides, which neither takes time nor memory here."""
    passed: tuple[str, ...] = ("the model",)
    """Whose forward passes these are."""
    iterations: int = 1
    """Updates that use the same answers, and share all passes but the model's own."""
    every: int = 0
    """Sequences of all devices, or else micro-batches, after which all uses of an answer have ended. Where these do not
    divide a step's, the model that generated passes the answers too; 0 where `forwards` counts that or nothing does."""
    in_sequences: bool = False
    generation: int = 0
    """Sequences of all devices, or else micro-batches, that are generated at a time; 0 means those of a step."""
    generations: int = 1
    """Answers to a prompt of the data set."""

    @property
    def answers(self) -> int:
        """Sequences of a sample of the data set: both of a pair, and all answers to a prompt."""
        return self.pair * self.generations

    def passes(self, batch: int, microbatches: Number) -> tuple[Number, int]:
        """(forward, backward) passes of every sequence of a step, through whichever model."""
        if not self.every:
            return self.forwards, self.models
        apart = np.mod(batch if self.in_sequences else microbatches, self.every) != 0
        return self.forwards + apart / self.iterations, self.models

    @property
    def repeats(self) -> bool:
        """Whether sequences pass forward more than once."""
        return self.forwards > 1 or self.every > 0

    def describe(self) -> str:
        """A short description."""
        passes = f"{self.name}: each sequence passes forward through {' and '.join(self.passed)}"
        if self.every:
            what = f"{self.every} {'sequences' if self.in_sequences else 'micro-batches'}"
            passes += f", and through {GENERATED} where {what} do not divide a step's"
        back = f"; {self.models} models learn" if self.models > 1 else ""
        uses = f"; all but the model's own are shared by {self.iterations} updates" if self.iterations > 1 else ""
        copies = f"; {self.frozen} frozen {'copies' if self.frozen > 1 else 'copy'} of the model held"
        return passes + uses + back + copies * bool(self.frozen)


PLAIN = Objective("next token", 1)


@dataclass(frozen=True, slots=True)
class Training:
    """What `--train` says."""

    adapters: Adapters | None
    """What is trained instead of the model's own weights; None where these are."""
    objective: Objective


FULL_TRAINING = Training(None, PLAIN)


@lru_cache(maxsize=64)
def read_training(text: str, where: str | None = "--train", usual: tuple[tuple[str, str], ...] = ()) -> Training:
    """What `full`, `lora:r=16`, `dpo` or `grpo:generation=60%,lora:r=16` trains.

    `usual` are settings by objective that the software has where the text does not say. Raises BadInput, UnknownName.
    """
    parts = _parts(text, where)
    objectives, tuned = ([name for name in parts if name in some] for some in (SETTINGS, ("full", *METHODS)))
    if len(objectives) > 1 or len(tuned) > 1:
        raise BadInput(f"{' and '.join(parts)} do not go together", where)
    adapters = next((read_adapters(parts[name], where) for name in METHODS if name in parts), None)
    if parts.get("full", "full") != "full":
        raise BadInput(f"full takes no settings, got {parts['full']!r}", where)
    if not objectives:
        return Training(adapters, PLAIN)
    name = objectives[0]
    given = _settings(name, parts[name].partition(":")[2], where)
    if given.pop("paper", None) is None:
        given = {**_settings(name, dict(usual).get(name, ""), where), **given}
    given = {**_settings(name, PAPERS.get(name, ""), where), **given}
    return Training(adapters, _objective(name, given, adapters, where))


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


def _settings(name: str, text: str, where: str | None) -> dict[str, str]:
    """The settings in `beta=0.04,iterations=2`, by name; beta says whether there is a reference."""
    given = dict(part.strip().partition("=")[::2] for part in text.split(",") if part)
    if unknown := sorted(set(given) - set(SETTINGS[name])):
        raise UnknownName(f"setting of {name}", unknown[0], SETTINGS[name], where)
    if "beta" in given and "reference" not in given:
        given["reference"] = "model" if parse_number(given["beta"], where) else "none"
    return given


def _objective(name: str, given: Mapping[str, str], adapters: Adapters | None, where: str | None) -> Objective:
    """The objective `name` with settings."""
    reference, reward = given.get("reference", "model"), given.get("reward", "model" if name == "ppo" else "none")
    chosen = {"reference": (reference, REFERENCES), "reward": (reward, REWARDS), "kl": (given.get("kl", "yes"), ASKED)}
    for what, (value, allowed) in {**chosen, "old": (given.get("old", "always"), OLD)}.items():
        if value not in allowed:
            raise UnknownName(f"value of {what}", value, allowed, where)
    refers = int(reference == "model")
    frozen, bare = (refers, 0) if adapters is None else (0, refers)
    asked = _elsewhere(reference, "", 1.0)
    if name == "reward":
        return Objective(name, 1, pair=2)
    if name == "dpo":
        passed = (*PLAIN.passed, *[REFERENCE] * refers)
        return Objective(name, 1 + refers, bare=bare, frozen=frozen, pair=2, elsewhere=asked, passed=passed)
    if name == "kto":
        each = 1 if given.get("kl") == "no" else 2
        passed = (*PLAIN.passed, *[REFERENCE] * refers, *["both on answers to other prompts"] * (each - 1))
        return Objective(name, each * (1 + refers), 1, each * bare, frozen, elsewhere=asked, passed=passed)
    return _generated(name, given, adapters, (reference, reward), where)


def _generated(
    name: str, given: Mapping[str, str], adapters: Adapters | None, models: tuple[str, str], where: str | None
) -> Objective:
    """An objective whose answers are generated, with such a reference and such rewards."""
    generation_frac = parse_frac(given.get("generation", "0"), where)
    if not 0 <= generation_frac <= MOST_GENERATION_FRAC:
        raise BadInput(f"generation must be from 0 to {MOST_GENERATION_FRAC:.0%} of the step's time", where)
    refers, rewards = (int(one == "model") for one in models)
    uses, held = _count(given, "iterations", where) or 1, rewards + refers * (adapters is None)
    bare = (refers + rewards) * (adapters is not None) / uses
    elsewhere = (*_elsewhere(*models, generation_frac), "the memory of the engine that generates")
    beside = [REFERENCE] * refers + ["the reward model"] * rewards
    if name == "ppo":
        passed = (*PLAIN.passed, GENERATED, "the critic twice", *beside)
        return Objective(name, 4 + refers + rewards, 2, bare, held, 1, generation_frac, elsewhere, passed)
    steps, batch = (_count(given, word, where) for word in ("steps-per-generation", "generation-batch"))
    if steps and batch:
        raise BadInput("give steps-per-generation or generation-batch, not both", where)
    every = (steps or batch) * uses if given["old"] == "if-needed" else 0
    # Where each step generates its own answers, every use after the first is of an older model.
    old = given["old"] == "always" or (given["old"] == "if-needed" and not every and uses > 1)
    passed = (*PLAIN.passed, *[GENERATED] * old, *beside)
    answers = steps or batch, _count(given, "generations", where) or 1
    beyond = bare, held, 1, generation_frac, elsewhere, passed, uses, every, bool(batch), *answers
    return Objective(name, 1 + (old + refers + rewards) / uses, 1, *beyond)


def _count(given: Mapping[str, str], name: str, where: str | None) -> int:
    """A setting that is a whole number of at least 1; 0 where it is not given."""
    text = given.get(name, "")
    if name in given and not (text.isdigit() and int(text)):
        raise BadInput(f"{name} must be a whole number of at least 1, got {text!r}", where)
    return int(text or 0)


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
