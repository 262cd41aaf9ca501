"""Ratchets of the house: what an import loads, how long files and functions are, what the sources may say."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep
from lockstep.verbs import VERBS

ROOT = Path(lockstep.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES = 420, 80
HEAVY = ("torch", "scipy", "matplotlib", "networkx", "simpy", "numpy", "pydantic", "yaml", "rich", "typer")


def names(files: list[Path]) -> list[str]:
    return [str(file.relative_to(ROOT)) for file in files]


def test_importing_lockstep_loads_nothing_heavy() -> None:
    code = f"import sys, lockstep; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_planning_loads_no_optional_library() -> None:
    code = (
        "import sys, lockstep; lockstep.plan('gpt2', 'dgx-a100-40gb:1', batch=64);"
        f"print([name for name in {HEAVY[:5]} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("file", FILES, ids=names(FILES))
def test_files_and_functions_stay_small(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("file", FILES, ids=names(FILES))
def test_sources_explain_themselves_and_assert_nothing_of_users(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module says what it is for"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: raise BadInput instead of assert"
        public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if public and isinstance(node, ast.ClassDef):
            assert ast.get_docstring(node), f"{node.name} has no docstring"
    for word in ("TODO", "FIXME", "XXX"):
        assert word not in file.read_text(encoding="utf-8")


def test_public_names_are_pinned() -> None:
    """Edit this list on purpose when a verb joins."""
    rooms = {
        "collectives", "failures", "hardware", "layout", "methods", "parallel", "program", "simulate", "step",
        "validation", "workload",
    }  # fmt: skip
    assert set(lockstep.__all__) == {*VERBS, *rooms}
    assert all(callable(getattr(lockstep, name)) for name in VERBS)


LINK_NUMBERS = {
    "latency_s", "bandwidth_Bps", "rate_Bps", "reduce_s_per_B", "bandwidth_per_device_Bps", "host_bandwidth_Bps",
    "link_per_device",
}  # fmt: skip
LINK_ROOMS = ("parallel", "collectives", "simulate", "hardware", "measure")
LINK_READERS = {
    "verbs/words/network.py": "reads the link that a user describes",
    "verbs/words/peer_copies.py": "hands the fabric's rate to copies in peers' memory",
    "verbs/tensor.py": "hands the link to the layer and prints it",
    "campaigns/changes.py": "compares clusters by the rate of a level",
    "lab/experiments/compression/compression_time.py": "puts seconds of messages beside steps of the lab",
    "lab/experiments/time/time_to_accuracy.py": "puts seconds of messages beside steps of the lab",
    "lab/race/server.py": "queues messages at a parameter server of the lab",
    "planner/guide/rules/node.py": "shows both rates to the reader of a rule",
    "planner/assumptions.py": "prints the host link",
    "planner/roofline.py": "turns seconds of a level back into bytes",
    "planner/whatif.py": "scales links to ask what a faster one saves",
    "views/execute.py": "prints links",
    "views/fit.py": "prints and draws fitted links",
    "views/rig.py": "prints links",
}
"""Files outside the rooms of physics that read a link's latency or rate, each with its reason."""


def test_only_the_rooms_of_physics_read_links() -> None:
    """What a link's numbers mean for a step is said once; who else reads them has a reason."""
    found = set()
    for file in FILES:
        name = str(file.relative_to(ROOT))
        read = {node.attr for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Attribute)}
        if read & LINK_NUMBERS and not name.startswith(LINK_ROOMS):
            found.add(name)
    assert found == set(LINK_READERS)


def test_files_named_in_the_sources_exist() -> None:
    """A source of a law, or a docstring, that names a file of Lockstep by its room."""
    rooms = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__")
    named = re.compile(rf"(?<![\w/.])((?:{rooms})/[\w/]+\.(?:py|toml))\b")
    found = {(name, file) for file in FILES for name in named.findall(file.read_text("utf-8"))}
    assert len(found) > 10
    assert {name: str(file) for name, file in found if not (ROOT / name).exists()} == {}
