"""The verb `watch`: a running job's log beside the prediction, step by step."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, cast

from lockstep.base.documents.files import InMemory
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_count
from lockstep.show.verbs.diagnose import predicted
from lockstep.show.verbs.plan import plan
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster, Layout, Model
from lockstep.show.verbs.words.option import Argument, Option, Switch
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.run_file import run_of
from lockstep.show.verbs.words.shared import LAYOUT_WORDS, LayoutWords

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.watch.answer import Watched
    from lockstep.explain.watch.run import Event, Told
    from lockstep.explain.watch.tail import Lines, Sources
    from lockstep.explain.watch.watcher import Watcher

POLL_S = 0.5
"""Between two looks at files that are followed."""

FILE = Argument("FILE", "Logs of the run, or folders with them, of any name; - is standard input.", repeated=True)
MODEL = Option("M", "Model, as estimate takes it.", names="models", default="that of a log which has the arguments")
CLUSTER = Option("C", "Cluster, as estimate takes it.", "-c", names="clusters")
STEPS = Option("N", "Number of the run's last step.", default="as the log has it")
TOKENS = Option("T", "Tokens of the whole run, e.g. 15T, instead of --steps.")
FOLLOW = Switch("Wait for more lines until the last step is printed or Ctrl-C ends it.", flag="-f")


@strict
def watch(
    file: Annotated[Sequence[str | Path], FILE],
    *,
    model: Annotated[str | Path | Model | None, MODEL] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    steps: Annotated[Quantity | None, STEPS] = None,
    tokens: Annotated[Quantity | None, TOKENS] = None,
    follow: Annotated[bool, FOLLOW] = False,
    layout: Layout | None = None,
    progress: Progress | None = None,
    **words: Unpack[LayoutWords],
) -> "Watched":
    """What the log of a run says of it: steps, rates, drift, restarts, goodput, and the interval that it keeps or left.

    Args: `file`: logs and folders; `model`, `cluster`, `layout` and words of the layout as for `estimate`, without
    which what the log says is shown alone; `steps` or `tokens` of the whole run, for the time left. `progress(step,
    last)` is called at every printed step. Raises BadInput where no step of a known program is in the files.
    """
    found: Watched | None = None
    for found, event in watching(
        file, model=model, cluster=cluster, steps=steps, tokens=tokens, follow=follow, layout=layout, **words
    ):
        if progress is not None and event is not None and event.kind == "step":
            progress(event.step, found.run.last or event.step)
    if found is None:
        raise BadInput("give a FILE", "FILE")
    return found


def watching(
    file: Sequence[str | Path],
    *,
    model: str | Path | Model | None = None,
    cluster: str | Path | Cluster | None = None,
    steps: Quantity | None = None,
    tokens: Quantity | None = None,
    follow: bool = False,
    layout: Layout | None = None,
    **words: Unpack[LayoutWords],
) -> "Iterator[tuple[Watched, Event | None]]":
    """What is known after each event, and at the end, with which no event comes; arguments as those of `watch`.

    While files are followed and nothing is new, what is known comes without an event too.
    """
    from lockstep.explain.watch.answer import watched
    from lockstep.explain.watch.tail import Sources
    from lockstep.explain.watch.watcher import Watcher

    paths = [str(one) for one in ([file] if isinstance(file, str | Path) else file)]
    if steps is not None and tokens is not None:
        raise BadInput("give one of --steps and --tokens", "--steps")
    expected = predicted(_heads(paths), model, cluster, layout, words, needed=False)
    watcher = Watcher(_told(expected, steps, tokens))
    for event in _events(watcher, Sources(paths), follow):
        yield watched(watcher, expected), event
    if watcher.run.newest is None:
        raise BadInput("no step of a known training program is in it", paths[0])
    yield _replanned(watched(watcher, expected), model, cluster, words), None


def _events(watcher: "Watcher", given: "Sources", follow: bool) -> "Iterator[Event | None]":
    """Events of all sources in their order; None where nothing is new in files that are followed."""
    from lockstep.explain.watch.answer import has_ended

    known: list[Lines] = []
    try:
        while True:
            known += given.new()
            before = watcher.lines
            for source in known:
                while lines := source.read():
                    for raw in lines:
                        yield from watcher.feed(source, raw)
            if not follow or has_ended(watcher.run) or not any(source.grows for source in known):
                break
            if watcher.lines == before:
                yield None
                time.sleep(POLL_S)
    except KeyboardInterrupt:
        if not follow:
            raise
    for source in known:
        for raw in source.rest():
            yield from watcher.feed(source, raw)
        source.close()
    yield from watcher.end()


def _heads(paths: list[str]) -> list[InMemory]:
    """The beginnings of files, in which programs print their arguments; a log may be larger than what is read whole."""
    from lockstep.explain.read.file import head

    found = []
    for path in paths:
        if os.path.isfile(path):
            data = head(path).data
            found.append(InMemory(path, data[: data.rfind(b"\n") + 1].decode("utf-8", "replace").encode()))
    return found


def _told(found: "Estimate | None", steps: Quantity | None, tokens: Quantity | None) -> "Told":
    """What is known of the run besides its log."""
    from lockstep.explain.watch.run import Told

    asked = Told(
        steps=None if steps is None else whole(steps, "--steps"),
        total_tokens=None if tokens is None else parse_count(tokens, "--tokens"),
    )
    if found is None:
        return asked
    from lockstep.explain.gather import told_of

    return told_of(found, asked)


def _replanned(
    found: "Watched", model: str | Path | Model | None, cluster: str | Path | Cluster | None, words: LayoutWords
) -> "Watched":
    """With the best plan for the devices that are left, where some were lost and the run is described."""
    if not found.run.lost_devices or found.predicted is None or cluster is None:
        return found
    stated = run_of(_heads(list(found.files))) if model is None else None
    # A log that has the arguments of its run is a MODEL, in memory only as far as it was read.
    named = cast(Path, stated[0]) if stated else model or found.predicted.job.model
    asked = {name: value for name, value in words.items() if name not in (*LAYOUT_WORDS, "gpus")}
    try:
        return replace(found, replan=plan(named, cluster, gpus=found.run.devices, top=1, **asked))  # type: ignore[arg-type]
    except (BadInput, Infeasible) as error:
        return replace(found, replan_fails=str(error))
