"""The page in a browser: `ui`."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from lockstep.base.errors import BadInput, located, not_installed
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.base.types.upper import upper
from lockstep.base.units import parse_integer
from lockstep.show.verbs.capture import is_capture
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.option import Argument, Option, Switch
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import existing_folder

NEEDED = ("starlette", "uvicorn")
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, repr=False)
class Served(Shown):
    """A page that is served by this process until it is stopped."""

    address: str
    """With the token, without which the page is not shown."""
    wait: Callable[[], None] = field(compare=False)
    """Returns when the page is no longer served; Ctrl-C stops it."""
    stop: Callable[[], None] = field(compare=False)
    """Ends it."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"address": self.address}


MODEL = Argument(
    "MODEL",
    "Model to begin with: a catalog name or a file, also one of lockstep capture.",
    "models",
    optional=True,
    default="an example",
)
CLUSTER = Option("C", "Cluster to begin with: a catalog name or a YAML file.", "-c", names="clusters")
SWEEPS = Option("DIR", "Folder whose sweeps, files of --store, are shown.", default="the current one")


@strict
def ui(
    model: Annotated[str | Path | Model | None, MODEL] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    port: Annotated[Quantity, Option("N", "Port on this machine.", default="a free one")] = 0,
    open: Annotated[bool, Switch("Open the browser.", True)] = True,
    sweeps: Annotated[str | Path, SWEEPS] = ".",
) -> Served:
    """Serves the page to this machine alone, and opens it in a browser; `stop()` of the answer ends it.

    Raises BadInput where the extra `ui` is not installed or the port is taken.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise not_installed(f"the page needs {' and '.join(missing)}", "ui")
    number = parse_integer(port, "--port", minimum=0)
    if number > LAST_PORT:
        raise BadInput(f"must be at most {LAST_PORT:,}, got {number:,}", "--port")
    folder = existing_folder(sweeps, "--sweeps")
    running = upper("page").serve(_given(model, cluster), number, open, folder)
    return Served(running.address, running.wait, running.stop)


def _given(model: Any, cluster: Any) -> dict[str, tuple[str, object]]:
    """What the page begins with: by keyword a text and the object. Raises BadInput for what cannot be read."""
    from lockstep.describe.hardware import cluster as find_cluster
    from lockstep.describe.varied import read_capture_file
    from lockstep.describe.workload import model as find_model

    found: dict[str, tuple[str, object]] = {}
    for keyword, given, find, where in (
        ("model", model, read_capture_file if is_capture(model) else find_model, "MODEL"),
        ("cluster", cluster, find_cluster, "--cluster"),
    ):
        if isinstance(given, str | Path):
            with located(where):
                found[keyword] = (str(given), find(given))
        elif given is not None:
            found[keyword] = (given.name, given)
    return found
