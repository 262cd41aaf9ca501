"""Names of modules in a capture: runs with shared beginnings are the names again, and odd ones are refused."""

import random
import zipfile
from pathlib import Path

import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.captured import MOST_PARTS, packed_modules, read_captured, unpacked_modules

EXAMPLE = Path(__file__).parents[2] / "examples" / "finetune_lora.capture"


def odd_names(draw: random.Random) -> list[str]:
    """Few parts, so that beginnings are shared, some with commas, digits, or nothing in them."""
    parts = ["a", "0", "1", "b,2", "", "layers"]
    pool = [".".join(draw.choice(parts) for _ in range(draw.randrange(1, 5))) for _ in range(6)]
    return [draw.choice([*pool, "", "deep" + ".x" * 300]) for _ in range(draw.randrange(60))]


@pytest.mark.parametrize("seed", range(60))
def test_names_come_back(seed: int) -> None:
    names = odd_names(random.Random(seed))
    assert unpacked_modules(packed_modules(names), len(names)) == names


def test_layers_differ_in_one_line() -> None:
    """What two layers do takes the same lines, so that it packs well, and names are said once."""
    layer = [("norm", 4), ("attn.q", 2), ("attn", 1), ("attn.o", 2), ("", 1), ("mlp.up", 3)]
    names = [f"model.layers.{at}.{name}".rstrip(".") for at in range(12) for name, times in layer for _ in range(times)]
    lines = packed_modules(names).split("\n")
    first, rest = lines[: len(layer)], lines[len(layer) :]
    for start in range(0, len(rest), len(layer)):
        number, *others = rest[start : start + len(layer)]
        assert number == f"4,2,{start // len(layer) + 1}.norm"
        assert others == first[1:]


@pytest.mark.parametrize(
    "text",
    [
        "", "2,0,a", "4,0,a", "0,0,a\n3,0,b", "-1,0,a\n4,0,b", "3,1,a", "3,-1,a", "3,0", "x,0,a", "3,0,a\n",
        "999999999999999999,0,a", "1,0,a\n2,2,b", f"1,0,{'a.' * 150}\n2,{MOST_PARTS + 1},b",
    ],
)  # fmt: skip
def test_other_lines_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"modules\.txt|unpack|literal"):
        unpacked_modules(text, 3)


def test_modules_are_a_small_part_of_a_capture() -> None:
    """Of adapters of 8B: the lines of their layers were half of the file when names were written out."""
    with zipfile.ZipFile(EXAMPLE) as file:
        sizes_B = {one.filename: one.compress_size for one in file.infolist() if "/" not in one.filename}
    assert sizes_B["modules.txt"] < 0.25 * sum(sizes_B.values())
    inside = [one.module.partition(".layers.")[2] for one in read_captured(EXAMPLE).operations]
    assert {name.partition(".")[0] for name in inside} == {"", *map(str, range(32))}


def test_a_capture_of_another_schema_is_refused(tmp_path: Path) -> None:
    """With what to do about it, before anything else of it is read."""
    path = tmp_path / "old.capture"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("program.json", '{"schema": 3}')
    with pytest.raises(BadInput, match="schema is another than 5; capture the program again"):
        read_captured(path)
