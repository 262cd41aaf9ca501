"""Ratchets of the house: what an import loads, how long files and functions are, what the sources may say."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import lockstep
from lockstep.show.verbs import VERBS

ROOT = Path(lockstep.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES = 420, 80
HEAVY = ("torch", "scipy", "matplotlib", "networkx", "simpy", "numpy", "pydantic", "yaml", "rich", "typer")


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def test_importing_lockstep_imports_no_heavy_library() -> None:
    code = f"import sys, lockstep; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


COMMANDS = {
    "--help": 45,
    "collective all-reduce --ranks 8 --size 1MB --cluster dgx-h100:1": 165,
    "catalog models": 105,
    "estimate gpt2 --cluster dgx-a100-40gb:1 --batch 64": 430,
    "plan gpt2 --cluster dgx-a100-40gb:1 --batch 64": 430,
}
"""Commands, with the most modules of Lockstep that each may load."""
SHOWS = """
import sys
from lockstep.show.cli import main
try:
    main(sys.argv[1].split())
finally:
    print(*sys.modules)
"""
"""Runs a command and prints what it loaded."""


def _loaded(command: str) -> list[str]:
    kept = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    found = subprocess.run([sys.executable, "-c", SHOWS, command], capture_output=True, text=True, check=True, env=kept)
    return found.stdout.splitlines()[-1].split()


@pytest.fixture(scope="module")
def parsed() -> None:
    """Catalogs were parsed once: the first command after an installation loads what parses them."""
    _loaded("estimate gpt2 --cluster dgx-a100-40gb:1 --batch 64")


@pytest.mark.usefixtures("parsed")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_what_its_answer_needs(command: str) -> None:
    loaded = _loaded(command)
    unwanted = {"numpy.ma", "pydantic", "yaml", *HEAVY[:5]}
    assert unwanted.isdisjoint(loaded)
    assert sum(name.startswith("lockstep.") for name in loaded) <= COMMANDS[command]


def test_methods_of_data_classes_are_made_when_they_are_used() -> None:
    """By `base.records`, as compiling them all takes a quarter of the time of a short command."""
    imports = [
        (name(file), node) for file in FILES for node in ast.walk(tree(file)) if isinstance(node, ast.ImportFrom)
    ]
    found = {
        file for file, node in imports if node.module == "dataclasses" for one in node.names if one.name == "dataclass"
    }
    assert found == {"base/records.py"}


def test_files_and_functions_stay_small() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name(file): length for file, length in lengths.items() if length > MAX_FILE_LINES} == {}
    bodies = {
        f"{name(file)}: {node.name}": (node.end_lineno or node.lineno) - node.body[0].lineno + 1
        for file in FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef)
    }
    assert {function: length for function, length in bodies.items() if length > MAX_FUNCTION_LINES} == {}


def test_sources_have_docstrings_and_no_assert_for_user_errors() -> None:
    assert [name(file) for file in FILES if not ast.get_docstring(tree(file))] == []
    kinds = (ast.Assert, ast.ClassDef)
    nodes = [(name(file), node) for file in FILES for node in ast.walk(tree(file)) if isinstance(node, kinds)]
    assert [f"{file}:{node.lineno}" for file, node in nodes if isinstance(node, ast.Assert)] == [], "raise BadInput"
    classes = [(file, node) for file, node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert [f"{file}: {node.name}" for file, node in classes if not ast.get_docstring(node)] == []
    said = {name(file): file.read_text(encoding="utf-8") for file in FILES}
    assert [(file, word) for file, text in said.items() for word in ("TODO", "FIXME", "XXX") if word in text] == []


def test_public_names_are_pinned() -> None:
    """Edit this list on purpose when a verb joins."""
    rooms = {
        "collectives", "failures", "hardware", "layout", "methods", "parallel", "play", "program", "step",
        "validation", "workload",
    }  # fmt: skip
    assert set(lockstep.__all__) == {*VERBS, *rooms}
    assert all(callable(getattr(lockstep, name)) for name in VERBS)


LINK_NUMBERS = {
    "latency_s", "bandwidth_Bps", "rate_Bps", "reduce_s_per_B", "bandwidth_per_device_Bps", "host_bandwidth_Bps",
    "link_per_device",
}  # fmt: skip
LINK_ROOMS = ("simulate/parallel", "simulate/collectives", "simulate/play", "describe/hardware", "run")
LINK_READERS = {
    "show/verbs/words/network.py": "reads the link that a user describes",
    "show/verbs/words/peer_copies.py": "hands the fabric's rate to copies in peers' memory",
    "show/verbs/tensor.py": "hands the link to the layer and prints it",
    "check/evidence/claims/deciders/layouts.py": "puts the rate inside a node beside what a text prints",
    "decide/campaigns/changes.py": "compares clusters by the rate of a level",
    "learn/lab/experiments/compression/compression_time.py": "puts seconds of messages beside steps of the lab",
    "learn/lab/experiments/time/time_to_accuracy.py": "puts seconds of messages beside steps of the lab",
    "learn/lab/race/server.py": "queues messages at a parameter server of the lab",
    "decide/planner/guide/rules/node.py": "shows both rates to the reader of a rule",
    "decide/planner/assumptions.py": "prints the host link",
    "price/step/device.py": "hands the rate of the host link to the traffic on it",
    "decide/planner/rl_step.py": "puts states on the host link beside the phases of a step",
    "decide/planner/roofline.py": "turns seconds of a level back into bytes",
    "decide/planner/whatif.py": "scales links to ask what a faster one saves",
    "explain/gather.py": "puts a measured link beside the cluster's",
    "explain/link_times.py": "puts intervals of a fitted link, and which share of its wire that is, beside its rate",
    "explain/refit.py": "says which rate of a level a run reached",
    "show/views/execute.py": "prints links",
    "show/views/fit.py": "prints and draws fitted links",
    "show/views/rig.py": "prints links",
}
"""Files outside the rooms of physics that read a link's latency or rate, each with its reason."""


def test_only_pricing_packages_read_links() -> None:
    """What a link's numbers mean for a step is said once; who else reads them has a reason."""
    found = set()
    for file in FILES:
        read = {node.attr for node in ast.walk(tree(file)) if isinstance(node, ast.Attribute)}
        if read & LINK_NUMBERS and not name(file).startswith(LINK_ROOMS):
            found.add(name(file))
    assert found == set(LINK_READERS)


def test_modules_imported_by_name_are_in_lower_layers() -> None:
    """What import-linter cannot see; `lockstep/__init__.py` is above all rooms."""
    contracts = re.split(r"\nlayers =\n", (ROOT.parents[1] / ".importlinter").read_text(encoding="utf-8"))[1:]
    floors = [line for contract in contracts for line in contract.partition("\n\n")[0].splitlines()]
    floor_of = {room: floor for floor, rooms in enumerate(floors) for room in re.findall(r"(\w+)(?: \||$)", rooms)}

    def height(module: list[str]) -> tuple[int, int]:
        return floor_of[module[1]], floor_of.get(module[2] if len(module) > 2 else "", 0)

    climbing = [
        f"{name(file)}:{node.lineno} imports {target}"
        for file in FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")) and node.args
        for target in [ast.unparse(node.args[0]).lstrip("f").strip("'\"")]
        if target.startswith("lockstep.")
        if height(target.split(".")) < height(["lockstep", *file.relative_to(ROOT).with_suffix("").parts])
    ]
    assert climbing == []


def test_files_named_in_the_sources_exist() -> None:
    """A source of a law, or a docstring, that names a file of Lockstep by its room."""
    rooms = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__")
    named = re.compile(rf"(?<![\w/.])((?:{rooms})/[\w/]+\.(?:py|toml))\b")
    found = {(said, file) for file in FILES for said in named.findall(file.read_text("utf-8"))}
    assert len(found) > 10
    assert {said: name(file) for said, file in found if not (ROOT / said).exists()} == {}


def test_path_checks_never_raise_os_errors() -> None:
    """`Path.is_file` and its kin raise for a name that is too long, where those of `os.path` say no."""
    asked = re.compile(r".*\.(?:is_file|is_dir|exists)\(\).*")
    assert not [f"{path.name}: {line}" for path in FILES for line in asked.findall(path.read_text(encoding="utf-8"))]
