"""Captures a program in a process of its own, which changes PyTorch there and nothing here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from threading import Event

from lockstep.base.errors import BadInput, not_installed
from lockstep.base.records import asdict, dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.describe.captured import Captured, read_captured
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware.card import card_of
from lockstep.describe.varied import Varied, combinations, filled, join

CHILD = "lockstep.run.capture.child"
OLDEST = (2, 9)
"""The release with `_setup_privateuseone_for_python_backend` (pytorch pull request 157859); written for 2.13."""
UPDATES, UPDATED = 2, "updates"
"""Updates after which a step is known; the process adds a byte to a file for each."""
OFTEN_S = 0.3
MOST_AT_ONCE = 8
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables of a launcher, which the process sees as they are for the rank that is captured."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A script, and how it is captured."""

    script: str | Path
    arguments: Sequence[str]
    cluster: Cluster
    answers: Mapping[str, str]
    """What a place is told, by FILE:LINE."""
    ranks: int | None = None
    """How many torchrun would start; None where it starts none."""
    rank: int = 0


def capture_varied(
    asked: Asked, values: Mapping[str, tuple[int, ...]], out: str | Path, progress: Progress | None = None
) -> None:
    """Writes a step to `out`; with `values`, the steps of all their combinations in place of `{name}` in the arguments.

    Raises BadInput for a name in no argument, and where no other values follow from these.
    """
    if not values:
        capture(asked, out, progress)
        return
    for name in values:
        if not any(f"{{{name}}}" in one for one in asked.arguments):
            raise BadInput(f"no argument of the script has {{{name}}}, as in -- --{name} {{{name}}}", "--vary")
    with tempfile.TemporaryDirectory(prefix="lockstep-capture-") as folder:
        paths = [Path(folder) / f"{number}.capture" for number in range(prod(map(len, values.values())))]
        steps = _together(asked, combinations(values), paths, progress or (lambda done, total: None))
        varied = Varied(dict(values), tuple(asked.arguments), tuple(steps))
        for name, some in values.items():
            _follows(varied, name, 2 * some[-1] - some[-2])
        joined = Path(folder) / "all"
        join(paths, values, asked.arguments, joined)
        shutil.move(joined, out)


def _follows(varied: Varied, name: str, value: int) -> None:
    """Raises BadInput where no other value of an argument follows from the captured ones."""
    try:
        varied.at(**{name: value})
    except BadInput as error:
        raise BadInput(error.message, "--vary") from None


def _together(
    asked: Asked, combinations: Sequence[Mapping[str, int]], paths: Sequence[Path], progress: Progress
) -> list[Captured]:
    """Steps with values in the arguments, as many at once as there are processors; none goes on when one fails."""
    done, ended = [0] * len(paths), Event()

    def one(number: int) -> Captured:
        def report(made: int, total: int) -> None:
            if ended.is_set():
                raise InterruptedError
            done[number] = made
            progress(sum(done), total * len(paths))

        arguments = filled(asked.arguments, combinations[number])
        return capture(replace(asked, arguments=arguments), paths[number], report)

    with ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1)) as pool:
        running = [pool.submit(one, number) for number in range(len(paths))]
        try:
            return [each.result() for each in running]
        except BaseException:
            ended.set()
            pool.shutdown(cancel_futures=True)
            raise


def capture(asked: Asked, out: str | Path, progress: Progress | None = None) -> Captured:
    """A step of a script as one rank, written to `out`.

    Raises BadInput with what the program did that cannot be captured.
    """
    script = asked.script
    if find_spec("torch") is None:
        raise not_installed("lockstep capture needs torch", "measure", "SCRIPT")
    if _release(found := version("torch")) < OLDEST:
        raise BadInput(f"needs PyTorch {'.'.join(map(str, OLDEST))} or newer, found {found}", "lockstep capture")
    if not os.path.isfile(script):
        raise BadInput(f"there is no script {script}", "SCRIPT")
    with tempfile.TemporaryDirectory(prefix="lockstep-capture-") as folder:
        result = Path(folder) / "result.json"
        question = {
            "script": str(script),
            "arguments": list(asked.arguments),
            "card": asdict(card_of(asked.cluster.device)),
            "cluster": asked.cluster.name,
            "answers": dict(asked.answers),
            "ranks": asked.ranks or 1,
            "rank": asked.rank,
            "out": str(Path(out).resolve()),
            "result": str(result),
        }
        path = Path(folder) / "question.json"
        path.write_text(json.dumps(question), "utf-8")
        watched = partial(_watched, result.with_name(UPDATED), progress or (lambda done, total: None))
        launcher = launched(asked.cluster, asked.ranks, asked.rank)
        said = _run([sys.executable, "-m", CHILD, str(path)], launcher, watched)
        answer: Json = json.loads(result.read_text("utf-8")) if os.path.isfile(result) else {"error": _last(said)}
    if "error" in answer:
        raise BadInput(str(answer["error"]), str(script))
    return read_captured(out)


def _release(found: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(one) for one in found.split(".")[:2])


def _watched(made: Path, progress: Progress) -> None:
    """Says how many of the updates have been made that it takes until a step is known."""
    progress(os.path.getsize(made) if os.path.isfile(made) else 0, UPDATES)


def launched(cluster: Cluster, ranks: int | None, rank: int) -> dict[str, str]:
    """What torchrun tells a rank, on nodes of the cluster; nothing where it starts none."""
    if ranks is None:
        return {}
    near = min(ranks, cluster.num_devices // cluster.num_nodes)
    values = (rank, ranks, rank % near, near, rank // near, "localhost", 29500)
    return {name: str(value) for name, value in zip(LAUNCHER, values, strict=True)}


def _run(command: Sequence[str], launcher: Mapping[str, str], watched: Callable[[], None]) -> str:
    """Runs the process to its end and gives what it printed; it ends with this one, also where that is killed."""
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    environment = {**kept, **launcher, "CUDA_VISIBLE_DEVICES": "0", "TOKENIZERS_PARALLELISM": "false"}
    heard, kept_open = os.pipe()  # The child ends when the other end is closed, by whatever.
    with subprocess.Popen(
        [*command, str(heard)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment, pass_fds=(heard,),
    ) as process:  # fmt: skip
        os.close(heard)
        try:
            while True:
                try:
                    return process.communicate(timeout=OFTEN_S)[0]
                except subprocess.TimeoutExpired:
                    watched()
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(kept_open)


def _last(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return f"the program ended without an answer: {lines[-1] if lines else 'it printed nothing'}"
