"""Generation of the answers of a reinforcement-learning step."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput, located
from lockstep.base.types.plain import Json
from lockstep.base.units import LENGTH, parse_frac, parse_time_s
from lockstep.show.verbs.estimate import read_asked
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Length, Quantity, Time
from lockstep.show.verbs.words.question import read_cluster, whole
from lockstep.show.verbs.words.shared import CLUSTER, LAYOUT_WORDS, MODEL, SEED

if TYPE_CHECKING:
    from lockstep.decide.planner.rollout import Rollout

_ENGINE, _STEP = "Engine", "Step"

PROMPTS = Option("N", "Prompts of a step.")
GROUP = Option("G", "Answers to each prompt, which share its prefill and its keys and values.", default="1")
PROMPT_TOKENS = Option("P", "Tokens of a prompt, where 1k is 1,024.")
RESPONSE = Option(
    "LAW",
    "Tokens of an answer: a number (2k, which is 2,048), lognormal:mean=1k,cv=1 or another law, percentiles:p10=500,"
    "p50=1k,p90=4k, or a file answers.txt with a number a line.",
)
MAX_RESPONSE = Option("N", "Tokens at which an answer stops in any case.", default="none")
TP = Option("N", "Tensor-parallel ranks of an engine.", panel=_ENGINE, default="1")
PP = Option("N", "Pipeline stages of an engine.", panel=_ENGINE, default="1")
DP = Option(
    "N",
    "Groups of sequences of an engine that have attention of their own and share experts.",
    panel=_ENGINE,
    default="1",
)
EP = Option("N", "Ranks of an engine among which experts are divided.", panel=_ENGINE, default="1")
WEIGHTS = Option("F", "Format of weights, of half a byte to two.", panel=_ENGINE, default="bf16")
EXPERTS = Option("F", "Format of routed experts, where it is another.", panel=_ENGINE, default="--weights-dtype")
KV = Option("F", "Format of keys and values, of one byte or two.", panel=_ENGINE, default="bf16")
MEMORY = Option("FRAC", "Share of a device's memory that an engine may take.", panel=_ENGINE, default="90%")
IN_FLIGHT = Option("N", "Answers that an engine works on at a time, at most.", panel=_ENGINE, default="1024")
PASS_TOKENS = Option("N", "Tokens of one pass at most; longer prefills are cut.", panel=_ENGINE, default="8k")
HOST = Option("T", "Time of the host for each answer at each step.", panel=_ENGINE, default="20us")
TAIL = Option("FRAC", "The tail begins when at most this share of answers is still running.", default="10%")
TRAINER = Option(
    "LAYOUT",
    "Adds the trainer, and with it the whole step: a layout such as tp=4,pp=2,zero=1, or plan for the best one.",
    panel=_STEP,
)
TRAIN = Option("T", "What is trained, as --train of lockstep estimate.", panel=_STEP, default="grpo")
TRAIN_BATCH = Option("N", "Answers of one update; several make a step.", panel=_STEP, default="all of the step")
STACK = Option("S", "Training software, as lockstep stack lists it.", panel=_STEP, default="megatron-te")
SPLIT = Option(
    "N", "Devices that generate apart from the others, which train.", panel=_STEP, default="none: all do both"
)
STALENESS = Option(
    "K",
    "Steps that answers may be older than the weights that learn from them; with --split.",
    panel=_STEP,
    default="0",
)
FLAGS = {name: f"--rollout-{name}" for name in ("tp", "pp", "dp", "ep")}
FLAGS |= {"most_sequences": "--in-flight", "model": "MODEL", "host_s": "--host"}


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
    rollout_tp: Annotated[Quantity, TP] = 1,
    rollout_pp: Annotated[Quantity, PP] = 1,
    rollout_dp: Annotated[Quantity, DP] = 1,
    rollout_ep: Annotated[Quantity, EP] = 1,
    weights_dtype: Annotated[str, WEIGHTS] = "bf16",
    experts_dtype: Annotated[str, EXPERTS] = "",
    kv_dtype: Annotated[str, KV] = "bf16",
    memory_frac: Annotated[Quantity, MEMORY] = 0.9,
    in_flight: Annotated[Quantity, IN_FLIGHT] = 1024,
    pass_tokens: Annotated[Length, PASS_TOKENS] = 8192,
    host: Annotated[Time, HOST] = 20e-6,
    tail: Annotated[Quantity, TAIL] = 0.1,
    trainer: Annotated[str | None, TRAINER] = None,
    train: Annotated[str | None, TRAIN] = None,
    train_batch: Annotated[Quantity | None, TRAIN_BATCH] = None,
    stack: Annotated[str | Path | None, STACK] = None,
    split: Annotated[Quantity | None, SPLIT] = None,
    staleness: Annotated[Quantity | None, STALENESS] = None,
    seed: Annotated[Quantity, SEED] = 0,
) -> "Rollout":
    """Time, memory and tail of generating `group` answers to each of `prompts` prompts on all devices of a cluster.

    `response`: how long answers are; every other quantity is of one engine, of which as many run as devices hold.
    Raises BadInput where an engine does not fit.
    """
    from lockstep.decide.planner.rollout import rollout as find
    from lockstep.describe.workload import Transformer
    from lockstep.describe.workload import model as find_model
    from lockstep.price.generation import Engine, read_lengths

    with located("MODEL"):
        wanted = find_model(model) if isinstance(model, str | Path) else model
    if not isinstance(wanted, Transformer):
        raise BadInput(f"{wanted.name} does not generate text", "MODEL")
    machine = read_cluster(cluster, gpus)
    asked = {"train": train, "train_batch": train_batch, "stack": stack, "split": split, "staleness": staleness}
    _refuse_without(trainer, asked)
    generating = _generating(machine, split)
    most = None if max_response is None else whole(max_response, "--max-response", units=LENGTH)
    lengths = read_lengths(str(response), most)
    share = parse_frac(tail, "--tail")
    degrees = {"tp": rollout_tp, "pp": rollout_pp, "dp": rollout_dp, "ep": rollout_ep}
    with _flags():
        engine = Engine(
            model=wanted,
            cluster=generating,
            **{name: whole(value, FLAGS[name]) for name, value in degrees.items()},
            weights_dtype=weights_dtype,
            experts_dtype=experts_dtype,
            kv_dtype=kv_dtype,
            memory_frac=parse_frac(memory_frac, "--memory-frac"),
            most_sequences=whole(in_flight, "--in-flight"),
            pass_tokens=whole(pass_tokens, "--pass-tokens", units=LENGTH),
            host_s=parse_time_s(host, "--host"),
        )
        found = find(
            engine,
            whole(prompts, "--prompts"),
            whole(group, "--group"),
            whole(prompt_tokens, "--prompt-tokens", units=LENGTH),
            lengths,
            tail_frac=share,
            seed=whole(seed, "--seed", minimum=0),
        )
    return found if trainer is None else _with_trainer(found, machine, trainer, asked)


def _refuse_without(trainer: str | None, asked: Mapping[str, object]) -> None:
    """Raises BadInput for words about a trainer where there is none."""
    for name, value in asked.items():
        if trainer is None and value is not None:
            raise BadInput("is about a whole step; give --trainer too", f"--{name.replace('_', '-')}")


def _generating(machine: Cluster, split: Quantity | None) -> Cluster:
    """The devices that generate."""
    if split is None:
        return machine
    devices = whole(split, "--split")
    if devices >= machine.num_devices:
        raise BadInput(f"must leave devices of the {machine.num_devices} to train", "--split")
    with located("--split"):
        return machine.resized(devices)


def _with_trainer(found: "Rollout", machine: Cluster, trainer: str, asked: Json) -> "Rollout":
    """The rollout as part of a step, whose sequences have the mean length."""
    from lockstep.decide.planner.estimate import estimate as estimate_layout
    from lockstep.decide.planner.rl_step import rl_step, with_step

    apart = asked["split"] is not None
    with located("--split"):
        devices = machine.resized(machine.num_devices - found.devices) if apart else machine
    words: Json = {
        "batch": found.answers if asked["train_batch"] is None else whole(asked["train_batch"], "--train-batch"),
        "seq": round(found.prompt_tokens + found.lengths.mean),
        "train": asked["train"] or "grpo",
        "stack": asked["stack"],
        **_layout_words(trainer),
    }
    with _of_trainer():
        question, layout = read_asked(found.engine.model, devices, None, words)
    stale = 0 if asked["staleness"] is None else whole(asked["staleness"], "--staleness", minimum=0)
    update = estimate_layout(question.job, question.cluster, layout)
    return with_step(found, rl_step(found, update, machine, stale))


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
