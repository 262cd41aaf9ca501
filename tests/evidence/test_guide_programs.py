"""Programs of `examples/guide`: each runs on four processes, agrees with one process, and notices what is wrong.

All of them share one start of PyTorch. What is changed in one is what the guide's listing does, or a small slip.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from lockstep.check.evidence.claims.shelf import entries

pytest.importorskip("torch", reason="needs torch")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "guide"
PROGRAMS = sorted(file for file in FOLDER.glob("*.py") if file.stem not in ("__main__", "processes"))
SLIPS = (
    ("ring_all_reduce", "step < ranks - 1", "step < ranks"),
    ("hierarchical_all_reduce", "dist.all_reduce(shard, group=place)", "dist.all_reduce(shard, group=node)"),
    ("fit_of_times", "1 / times_s if weighted else", "times_s * 0 + 1 if weighted else"),
    ("data_parallel", "flat / dist.get_world_size()", "flat"),
    ("data_parallel", ">= self.bucket_B", ">= 1e9"),
    ("compressed_gradients", "self.kept_back = whole.index_fill", "self.kept_back = 0 * whole.index_fill"),
    ("compressed_gradients", "all_gather(places), all_gather", "places.repeat(dist.get_world_size()), all_gather"),
    ("zero", "gradient = reduce_scatter(gradient) / dist", "gradient = my_part(gradient) / dist"),
    ("zero", "kept = my_part(weights) if stage == 3", "kept = my_part(weights) if stage == 4"),
    ("sharded_layers", "return reduce_scatter(gradient)", "return my_part(gradient)"),
    ("tensor_parallel", "enter = paired(torch.clone, total)", "enter = paired(torch.clone, torch.clone)"),
    ("tensor_parallel", 'bias == "after" or', 'bias == "never" or'),
    ("sequence_parallel", "paired(all_gather, reduce_scatter)", "paired(all_gather, my_part)"),
    ("sequence_parallel", "paired(reduce_scatter, all_gather)", "paired(my_part, all_gather)"),
    ("pipeline", "return x.grad", "return output.detach() if output.dim() else x.grad"),
    ("pipeline", "came is None else came, 1 / count", "came is None else came, 1"),
    ("pipeline", "self.held.pop(0)", "self.held.pop()"),
    (
        "ranks_of_axes",
        'GUIDE, MEGATRON = ("tensor", "pipeline", "data")',
        'GUIDE, MEGATRON = ("data", "pipeline", "tensor")',
    ),
    ("experts", "send(done, takes, gives) * weight", "send(done, takes, gives) * weight.flip(0)"),
    ("experts", "EXPERTS * (share", "(share"),
)
"""A program, what stands in it, and what is put in its place."""
TRY = """
import sys
from pathlib import Path
folder, slips = Path(sys.argv[1]), eval(sys.argv[2])
sys.path.insert(0, str(folder))
import torch._dynamo  # which DistributedDataParallel imports, here once and not on every rank
from processes import run
for name, before, after in slips:
    text = (folder / f"{name}.py").read_text()
    assert text.count(before) == 1, (name, before)
    found = {"__name__": name}
    exec(compile(text.replace(before, after), name, "exec"), found)
    try:
        run(found["work"])
        print("passed", name, before, flush=True)
    except Exception as error:
        print("failed" if "Error" in str(error) else "lost", name, before, error, flush=True)
"""


@cache
def said() -> list[str]:
    """The lines that all programs print."""
    command = [sys.executable, str(FOLDER)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("file", PROGRAMS, ids=[file.stem for file in PROGRAMS])
def test_a_program_agrees_with_one_process(file: Path) -> None:
    (line,) = re.findall(r'f"([\w -]+): ', file.read_text("utf-8"))
    assert len([one for one in said() if one.startswith(f"{line}: ")]) == 1
    assert len(said()) == len(PROGRAMS)


def test_programs_that_go_wrong_fail() -> None:
    found = subprocess.run(
        [sys.executable, "-c", TRY, str(FOLDER), repr(SLIPS)], capture_output=True, text=True, check=True
    ).stdout
    verdicts = re.findall(r"^(passed|failed|lost) (\w+)", found, re.MULTILINE)
    assert verdicts == [("failed", name) for name, _, _ in SLIPS], found
    assert {name for name, _, _ in SLIPS} == {file.stem for file in PROGRAMS}


def test_every_program_is_named_by_the_cards_of_its_sections() -> None:
    named = {(entry.id, entry.program) for entry in entries() if entry.program}
    told = set()
    for file in PROGRAMS:
        text = file.read_text("utf-8")
        head = (ast.get_docstring(ast.parse(text)) or "").partition(",")
        title = re.match(r"Sections? ([\d.]+)(?: and (?:example )?(E?[\d.]+))?$", head[0])
        assert title, file.name
        told |= {(one if one[0] == "E" else f"G.{one}", f"examples/guide/{file.name}") for one in title.groups() if one}
        assert f"python examples/guide/{file.name}" in text
        assert len(text.splitlines()) <= 80
    assert named == told
