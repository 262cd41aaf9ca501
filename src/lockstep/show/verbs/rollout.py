"""Generation of the answers of a reinforcement-learning step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.documents.files import write_text, writing
from lockstep.base.errors import BadInput, located
from lockstep.base.types.plain import Json
from lockstep.base.units import LENGTH, parse_frac, parse_time_s
from lockstep.show.verbs.estimate import read_asked
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Length, Quantity
from lockstep.show.verbs.words.question import read_cluster, read_question, whole
from lockstep.show.verbs.words.rollout import StepWords
from lockstep.show.verbs.words.shared import CLUSTER, LAYOUT_WORDS, MODEL, SEED

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.rl_export import RlSoftware
    from lockstep.decide.planner.rollout import Rollout
    from lockstep.describe.workload import Transformer
    from lockstep.price.generation import Engine


PROMPTS = Option("N", "Prompts of a step.")
GROUP = Option("G", "Answers to each prompt, which share its prefill and its keys and values.", default="1")
PROMPT_TOKENS = Option("P", "Tokens of a prompt, where 1k is 1,024.")
RESPONSE = Option(
    "LAW",
    "Tokens of an answer: a number (2k, which is 2,048), lognormal:mean=1k,cv=1 or another law, percentiles:p10=500,"
    "p50=1k,p90=4k, or a file answers.txt with a number a line.",
)
MAX_RESPONSE = Option("N", "Tokens at which an answer stops in any case.", default="none")
TAIL = Option("FRAC", "The tail begins when at most this share of answers is still running.", default="10%")
DEGREES = {"tp": "--rollout-tp", "pp": "--rollout-pp", "dp": "--attention-dp", "ep": "--rollout-ep"}
FLAGS = {**DEGREES, "most_sequences": "--in-flight", "model": "MODEL", "host_s": "--host"}
OF_STEP = ("train", "train_batch", "stack", "way", "split", "staleness", "search", "software", "export")
"""Words that need a trainer."""
NAMED = {"software": "--for"}


@verb
def rollout(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    gpus: Annotated[Quantity | None, Option("N", "Number of devices, instead of those of --cluster.")] = None,
    prompts: Annotated[Quantity, PROMPTS],
    group: Annotated[Quantity, GROUP] = 1,
    prompt_tokens: Annotated[Length, PROMPT_TOKENS],
    response: Annotated[str | int, RESPONSE],
    max_response: Annotated[Length | None, MAX_RESPONSE] = None,
    tail: Annotated[Quantity, TAIL] = 0.1,
    seed: Annotated[Quantity, SEED] = 0,
    **words: Unpack[StepWords],
) -> "Rollout":
    """Time, memory and tail of generating `group` answers to each of `prompts` prompts on all devices of a cluster.

    `response`: how long answers are. With `trainer`, the whole step, on the same devices or apart. Raises BadInput
    where an engine does not fit.
    """
    from lockstep.decide.planner.rollout import rollout as find
    from lockstep.price.generation import read_lengths

    asked: Json = {name: value for name, value in words.items() if value is not None and value is not False}
    _refuse(asked)
    machine = read_cluster(cluster, gpus)
    most = None if max_response is None else whole(max_response, "--max-response", units=LENGTH)
    numbers = (
        whole(prompts, "--prompts"),
        whole(group, "--group"),
        whole(prompt_tokens, "--prompt-tokens", units=LENGTH),
    )
    more: Json = {"tail_frac": parse_frac(tail, "--tail"), "seed": whole(seed, "--seed", minimum=0)}
    lengths = read_lengths(str(response), most)
    with _flags():
        engine = _engine(_text_model(model), _generating(machine, asked.get("split")), asked)

        def generate(one: "Engine") -> "Rollout":
            return find(one, *numbers, lengths, **more)

        if "search" in asked:
            return _configured(_searched(engine, machine, generate, asked), asked)
        found = generate(engine)
    return found if "trainer" not in asked else _configured(_with_trainer(found, machine, asked), asked)


def _text_model(model: str | Path | Model) -> "Transformer":
    """The model. Raises BadInput for one that does not generate text."""
    from lockstep.describe.workload import Transformer
    from lockstep.describe.workload import model as find_model

    with located("MODEL"):
        wanted = find_model(model) if isinstance(model, str | Path) else model
    if not isinstance(wanted, Transformer):
        raise BadInput(f"{wanted.name} does not generate text", "MODEL")
    return wanted


def _engine(model: "Transformer", cluster: Cluster, asked: Json) -> "Engine":
    """The engine in words as an object."""
    from lockstep.price.generation import Engine

    words = {degree: flag[2:].replace("-", "_") for degree, flag in DEGREES.items()}
    given: Json = {degree: whole(asked[word], FLAGS[degree]) for degree, word in words.items() if word in asked}
    given |= {name: asked[name] for name in ("weights_dtype", "experts_dtype", "kv_dtype") if name in asked}
    if "memory_frac" in asked:
        given["memory_frac"] = parse_frac(asked["memory_frac"], "--memory-frac")
    if "in_flight" in asked:
        given["most_sequences"] = whole(asked["in_flight"], "--in-flight")
    if "pass_tokens" in asked:
        given["pass_tokens"] = whole(asked["pass_tokens"], "--pass-tokens", units=LENGTH)
    if "host" in asked:
        given["host_s"] = parse_time_s(asked["host"], "--host")
    return Engine(model=model, cluster=cluster, **given)


def _refuse(asked: Json) -> None:
    """Raises BadInput for words about a trainer where there is none, and for those that a search finds."""
    for name in OF_STEP:
        if name in asked and "trainer" not in asked:
            raise BadInput("is about a whole step; give --trainer too", NAMED.get(name, f"--{name.replace('_', '-')}"))
    if "export" in asked and "software" not in asked:
        raise BadInput("name the software whose configuration is written, e.g. --for verl", "--export")
    for name in ("split", "rollout_tp"):
        if name in asked and "search" in asked:
            raise BadInput("is what --search finds; leave one of them out", f"--{name.replace('_', '-')}")


def _generating(machine: Cluster, split: Quantity | None) -> Cluster:
    """The devices that generate."""
    if split is None:
        return machine
    devices = whole(split, "--split")
    if devices >= machine.num_devices:
        raise BadInput(f"must leave devices of the {machine.num_devices} to train", "--split")
    with located("--split"):
        return machine.resized(devices)


def _searched(engine: "Engine", machine: Cluster, generate: "Callable[[Engine], Rollout]", asked: Json) -> "Rollout":
    """The rollout of the best split and engine."""
    from lockstep.decide.planner.rl_search import search

    wanted, update = _software(asked), partial(_update, asked=asked)
    if wanted is None:
        return search(engine, machine, generate, update, _staleness(asked))
    return search(engine, machine, generate, update, _staleness(asked), wanted.refuses_step, wanted.pads)


def _software(asked: Json) -> "RlSoftware | None":
    """The software that the step is for."""
    from lockstep.decide.planner.rl_export import rl_software

    return rl_software(asked["software"]) if "software" in asked else None


def _pads(asked: Json) -> bool:
    """Whether it pads micro-batches."""
    wanted = _software(asked)
    return wanted is not None and wanted.pads


def _configured(found: "Rollout", asked: Json) -> "Rollout":
    """The rollout with the configuration of the software that it is for, which is also written to `export`."""
    wanted = _software(asked)
    if wanted is None:
        return found
    found = wanted.configured(found)
    if "export" in asked and found.configuration is not None:
        folder = Path(asked["export"])
        with writing(folder, "--export"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in found.configuration.files.items():
            write_text(folder / name, text, "--export")
        return replace(found, configuration=replace(found.configuration, folder=str(folder)))
    return found


def _with_trainer(found: "Rollout", machine: Cluster, asked: Json) -> "Rollout":
    """The rollout as part of a step, whose sequences have the mean length."""
    from lockstep.decide.planner.rl_step import rl_step, with_step

    with located("--split"):
        training = machine.resized(machine.num_devices - found.devices) if "split" in asked else machine
    return with_step(found, rl_step(found, _update(training, found, asked), machine, _staleness(asked), _pads(asked)))


def _staleness(asked: Json) -> int:
    return whole(asked.get("staleness", 0), "--staleness", minimum=0)


def _update(devices: Cluster, found: "Rollout", asked: Json) -> "Estimate":
    """An update on these devices."""
    from lockstep.decide.planner.estimate import estimate as estimate_layout
    from lockstep.decide.planner.longest import Longest
    from lockstep.decide.planner.plan import plan

    words: Json = {
        "batch": whole(asked.get("train_batch", found.answers), "--train-batch"),
        "seq": found.sequence_tokens,
        "train": asked.get("train", "grpo"),
        "stack": asked.get("stack"),
        "way": asked.get("way"),
    }
    described, wanted = _layout_words(asked["trainer"]), _software(asked)
    if wanted is not None and words["stack"] is None:
        words["stack"] = wanted.stack
    with _of_trainer():
        if not described:
            asked_of = read_question(found.engine.model, devices, **words)
            limits = Longest("longest", "", wanted, found.most_tokens, asked_of.cluster, _pads(asked))
            best: Json = {"objective": "robust", "top": 1, "software": limits, "batch_frac": 0.0}
            return plan(asked_of.model, asked_of.cluster, asked_of.recipe, **best).best
        question, layout = read_asked(found.engine.model, devices, None, words | described)
    return estimate_layout(question.job, question.cluster, layout)


@contextmanager
def _of_trainer() -> Iterator[None]:
    """Names `--trainer` behind every BadInput about a word of its layout, whose flag is of another verb."""
    try:
        yield
    except BadInput as error:
        word = (error.where or "").removeprefix("--")
        if word.replace("-", "_") not in LAYOUT_WORDS:
            raise
        told = error.message if word.replace("-", "_") in error.message else f"{word}: {error.message}"
        raise BadInput(told, "--trainer") from None


def _layout_words(text: str) -> dict[str, str | bool]:
    """Words of a layout from tp=4,pp=2,sequence-parallel; none for `plan`."""
    if text.strip() == "plan":
        return {}
    found: dict[str, str | bool] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        key = name.replace("-", "_")
        if key not in LAYOUT_WORDS or key in found:
            raise BadInput(f"{part.strip()!r} is no word of a layout; write tp=4,pp=2,zero=1, or plan", "--trainer")
        found[key] = value if equals else True
    return found


@contextmanager
def _flags() -> Iterator[None]:
    """Names the flag behind every BadInput about an engine."""
    try:
        with located("--rollout-tp"):
            yield
    except BadInput as error:
        where = error.where or ""
        named = where if where.startswith("--") or not where.replace("_", "").isalnum() else ""
        raise BadInput(error.message, FLAGS.get(where, named or f"--{where.replace('_', '-')}")) from None
