"""A step of a program, captured without a GPU: bytes and FLOPs by arithmetic, what was asked, and what is refused."""

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import cli_runner
import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.captured import read_captured
from lockstep.price.layout.captured import WIDE_WORKSPACE_B, WORKSPACE_B
from lockstep.price.layout.memory import FRAMEWORK_B, SLACK_FRAC
from lockstep.show.verbs.capture import CapturedMemory

torch = pytest.importorskip("torch", minversion="2.9")

TOKENS, HIDDEN, WIDE, LAYERS = 512, 256, 1024, 3
MODEL = """
import sys, torch
from torch.utils.checkpoint import checkpoint

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 1024, bias=False), torch.nn.Linear(1024, 256, bias=False)
    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class Net(torch.nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.blocks, self.recompute = torch.nn.ModuleList(Block() for _ in range(3)), recompute
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return x
"""
STEP = """
net = Net("recompute" in sys.argv).to("cuda")
optimizer = torch.optim.AdamW(net.parameters())
data = torch.utils.data.DataLoader(torch.randn(512 * 8, 256), batch_size=512, shuffle=True)
for x in data:
    with torch.autocast("cuda", torch.bfloat16, enabled="autocast" in sys.argv):
        loss = net(x.to("cuda")).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if loss.item() < 0:
        print("never")
"""
WEIGHTS = LAYERS * 2 * HIDDEN * WIDE

Captured = Callable[..., CapturedMemory]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    # A program may lie in a folder of the name of a library; its lines are named all the same.
    folder = tmp_path_factory.mktemp("programs") / "torch" / "lockstep"
    folder.mkdir(parents=True)
    known: dict[tuple[str, ...], CapturedMemory] = {}

    def run(*words: str, program: str = MODEL + STEP, **options: object) -> CapturedMemory:
        key = (*words, program, str(options))
        if key not in known:
            script = folder / f"train{len(known)}.py"
            script.write_text(program)
            out = folder / f"{len(known)}.capture"
            known[key] = lockstep.capture(str(script), *words, **{"cluster": "h100-sxm:1", "out": out, **options})
        return known[key]

    return run


def test_bytes_of_weights_gradients_and_states_are_those_of_arithmetic(captured: Captured) -> None:
    found = captured().captured
    assert found.program["parameters"] == found.program["trained_parameters"] == WEIGHTS
    held = {name: sum(one.size_B for one in found.lives if one.category == name) for name in found.by_category}
    assert held["parameters"] == held["gradients"] == 4 * WEIGHTS
    assert held["optimizer"] == 2 * 4 * WEIGHTS


def test_activations_at_the_loss_are_what_the_backward_pass_reads(captured: Captured) -> None:
    """In fp32 without autocast every block keeps its input and the output of its activation."""
    found = captured().captured
    last = max(at for at, one in enumerate(found.operations) if one.phase == "forward" and "relu" in one.name)
    kept = [one for one in found.lives if one.category == "activations" and one.born <= last < (one.died or 1e9)]
    # The product that the last activation reads is there beside it.
    expected = 4 * TOKENS * (LAYERS * HIDDEN + LAYERS * WIDE + WIDE)
    assert sum(one.size_B for one in kept) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("says", "tf32"),
    [
        ("", ["convolutions"]),
        ("torch.backends.cuda.matmul.allow_tf32 = True", ["products", "convolutions"]),
        ("torch.set_float32_matmul_precision('high')", ["products", "convolutions"]),
        ("torch.backends.fp32_precision = 'ieee'", []),
    ],
)
def test_the_unit_for_products_of_fp32_is_the_one_that_the_program_allows(
    captured: Captured, says: str, tf32: list[str]
) -> None:
    """PyTorch allows TF32 in convolutions by itself, and in products when it is told to."""
    program = f"import sys, torch\n{says}\n{MODEL}{STEP}" if says else MODEL + STEP
    assert captured(program=program).captured.program["tf32"] == tf32


def test_flops_are_six_per_weight_and_token_but_for_the_first_input(captured: Captured) -> None:
    first = 2 * TOKENS * HIDDEN * WIDE
    assert captured().captured.flops == 6 * WEIGHTS * TOKENS - first


def test_recomputation_is_a_phase_of_its_own_and_saves_what_blocks_hold(captured: Captured) -> None:
    whole, again = captured().captured, captured("recompute").captured
    assert "recompute" not in whole.by_phase
    # The last product of a block is not computed again, as nothing reads what it gives.
    up = 2 * TOKENS * HIDDEN * WIDE
    assert again.flops - whole.flops in (LAYERS * up, LAYERS * 2 * up)
    assert again.by_phase["recompute"] > 0
    assert again.by_category["activations"] < whole.by_category["activations"]


def test_operations_are_told_by_the_module_that_makes_them_or_whose_gradients_they_make(captured: Captured) -> None:
    products = Counter((one.phase, one.module) for one in captured("recompute").captured.operations if one.flops)
    for name in (f"blocks.{at}.{part}" for at in range(LAYERS) for part in ("up", "down")):
        assert products["forward", name] == 1
        # Nobody needs the gradient of the data.
        assert products["backward", name] == 2 - (name == "blocks.0.up")
        assert products["recompute", name] == name.endswith("up")
    assert {name for _, name in products} == {f"blocks.{at}.{part}" for at in range(LAYERS) for part in ("up", "down")}


def test_autocast_runs_products_in_half_precision_and_keeps_casts_of_weights(captured: Captured) -> None:
    found = captured("autocast").captured
    products = [one for one in found.operations if one.flops and one.phase == "forward"]
    assert len(products) == 2 * LAYERS
    assert all("float32" not in one.shapes for one in products)
    casts = [one.size_B for one in found.lives if one.category == "activations" and one.size_B == 2 * HIDDEN * WIDE]
    assert len(casts) >= 2 * LAYERS


def test_the_answer_is_that_of_every_other_on_memory(captured: Captured) -> None:
    found = captured()
    memory, tensors_B = found.memory, found.captured.peak_B + 2 * WIDE_WORKSPACE_B
    assert memory.total_B == pytest.approx(tensors_B * (1 + SLACK_FRAC) + FRAMEWORK_B)
    assert found.fits
    other = lockstep.memory(found.path, "rtx-4090:1")
    assert other.cluster.device.name == "rtx-4090"
    assert memory.total_B - other.memory.total_B == pytest.approx(
        2 * (WIDE_WORKSPACE_B - WORKSPACE_B) * (1 + SLACK_FRAC)
    )
    assert other.memory.capacity_B < memory.capacity_B


def test_time_is_that_of_kernels_or_of_the_host_that_launches_them(captured: Captured) -> None:
    """On a slower card the same calls take longer; of so small a step the host decides on the fast one."""
    found = captured()
    fast = found.time
    assert fast is not None
    assert fast.device_s == pytest.approx(fast.products_s + fast.attention_s + fast.other_s)
    assert max(fast.device_s, fast.host_s) <= fast.step_time_s <= fast.device_s + fast.host_s + 0.02
    other = lockstep.memory(found.path, "rtx-4090:1").time
    assert other is not None
    assert other.other_s > fast.other_s
    # In fp32 products run at the rate of that format: less than a tenth of half precision.
    least_s = found.captured.flops / found.cluster.device.peak_flops["fp32"]
    assert fast.products_s > least_s


def test_what_was_asked_is_listed_and_answers_are_taken(captured: Captured) -> None:
    (asked,) = captured().captured.program["values"]
    assert (asked["kind"], asked["answer"]) == ("float", "1.0")
    line = (MODEL + STEP).splitlines().index("    if loss.item() < 0:") + 1
    assert asked["place"] == f"train0.py:{line}"
    program = MODEL + STEP.replace('print("never")', 'net = net.cpu(); raise RuntimeError("reached")')
    with pytest.raises(BadInput, match="reached"):
        captured(program=program, answer=[f"{name}:{line}=-1" for name in (f"train{at}.py" for at in range(10))])


@pytest.mark.usefixtures("own_process")
def test_equal_programs_give_equal_files(captured: Captured, tmp_path: Path) -> None:
    (tmp_path / "train0.py").write_text(MODEL + STEP)
    out = tmp_path / "step.capture"
    told: list[tuple[int, int]] = []
    lockstep.capture(
        str(tmp_path / "train0.py"), cluster="h100-sxm:1", out=out, progress=lambda *said: told.append(said)
    )
    assert told[0] == (0, 2)
    assert told == sorted(told)
    assert out.read_bytes() == Path(captured().path).read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["step.capture", "train0.py"]


ATTENTION = """
import torch
q = torch.nn.Parameter(torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16))
optimizer = torch.optim.SGD([q], lr=0.1)
for _ in range(3):
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    torch.nn.functional.silu(out).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


SCALED = """
import torch
unused = torch.compile(lambda x: x + 1)
net = torch.nn.Linear(64, 64).cuda()
optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.float16):
        loss = net(torch.randn(8, 64, device="cuda")).float()[..., [0, -1]].square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def test_gradients_that_are_looked_at_for_overflows_have_none(captured: Captured) -> None:
    found = captured(program=SCALED).captured
    assert found.by_phase["optimizer"] > 0
    assert {one["answer"] for one in found.program["values"] if "0" in one["answer"]}


def test_gradients_that_nobody_uses_are_said(captured: Captured) -> None:
    given = SCALED.replace("SGD(net.parameters()", "SGD([net.weight]")
    assert captured(program=given).captured.program["notes"] == ["gradients that no optimizer uses: bias of Linear"]
    assert not captured(program=SCALED).captured.program["notes"]


EARLY = """
import torch
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for one in net.parameters():
    one.grad = torch.zeros_like(one)
optimizer.step()
for _ in range(3):
    net(torch.randn(8, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_an_update_that_makes_states_is_no_step(captured: Captured) -> None:
    found = captured(program=EARLY).captured
    assert found.by_phase["backward"] > 0
    # The gradient of the input is needed by nobody.
    assert found.flops == 4 * 8 * 64 * 64


WORDS = """
import math, sys, torch
from torch.nn import functional
data = torch.arange(1000)
net = torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 64)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    starts = torch.randint(len(data) - 32, (4,))
    words = torch.stack([data[at : at + 32] for at in starts]).pin_memory().to("cuda", non_blocking=True)
    mask = torch.tensor([[1] * 20 + [0] * 12] * 4).to("cuda")
    loss = net(words)[mask.bool()].square().mean()
    if torch.rand([]) > 2 or loss.isnan() or not torch.isfinite(loss) or not math.isfinite(loss.item()):
        continue
    if (mask == 0).any() and mask.sum() == 80:
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss:.4f}")
"""


def test_values_of_data_are_known_and_numbers_are_finite(captured: Captured) -> None:
    """Slices begin where random numbers say, a mask leaves 80 rows, and no update is left out."""
    found = captured(program=WORDS).captured
    assert found.flops == 6 * 4 * 32 * 64 * 64
    (rows,) = {one.shapes for one in found.operations if one.name.startswith("aten.index.")}
    assert "80x64" in rows
    answers = {one["answer"] for one in found.program["values"]}
    assert "False" in answers


NUMBERS = """
import torch
net = torch.nn.Linear(64, 64)
net.temperature = torch.nn.Parameter(torch.tensor([0.5]))
net.register_buffer("shift", torch.tensor(2.0))
net = net.to("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = (net(torch.randn(8, 64, device="cuda")) * net.temperature + net.shift).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_parameters_made_of_numbers_move_to_the_card(captured: Captured) -> None:
    found = captured(program=NUMBERS).captured
    assert found.by_category["parameters"] >= 4 * (64 * 64 + 64 + 1)


CLOSURE = """
import copy, os, sys, torch
net = copy.deepcopy(torch.nn.Linear(64, 64)).to("cuda")
if len(sys.argv) > 1:
    net.load_state_dict(torch.load(sys.argv[1], map_location="cuda"))
scale = torch.nn.Parameter(torch.ones(64, device="cuda"))
torch.save(net.state_dict(), "weights.pt")
assert not os.path.exists("weights.pt")
optimizer = torch.optim.Adam([*net.parameters(), scale])
try:
    for _ in range(3):
        def closure():
            optimizer.zero_grad()
            loss = (net(torch.randn(8, 64, device="cuda")) * scale).square().mean()
            loss.backward()
            return loss
        optimizer.step(closure)
finally:
    net.cpu()
"""


def test_a_closure_is_no_part_of_the_update_and_what_follows_no_part_of_the_step(
    captured: Captured, tmp_path: Path
) -> None:
    import torch

    torch.save(torch.nn.Linear(64, 64).state_dict(), tmp_path / "weights.pt")
    found = captured(str(tmp_path / "weights.pt"), program=CLOSURE).captured
    assert found.flops == 4 * 8 * 64 * 64
    assert not [one for one in found.operations if one.flops and one.phase == "optimizer"]
    assert not [one for one in found.operations if one.phase == "forward" and "adam" in one.name]
    parameters = 64 * 64 + 2 * 64
    assert found.program["parameters"] == parameters
    assert sum(one.size_B for one in found.lives if one.category == "parameters") == pytest.approx(
        4 * parameters, rel=0.05
    )


RECURRENT = """
import torch
net = torch.nn.GRU(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.randn(5, 8, 64, device="cuda"))[0].square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_recurrent_layers_are_captured_cell_by_cell_which_is_said(captured: Captured) -> None:
    found = captured(program=RECURRENT).captured
    tokens, gates = 5 * 8, 3 * 64 * 64
    # Nobody needs the gradients of the input and of the first hidden state, which is zeros.
    assert found.flops == 6 * tokens * 2 * gates - 2 * tokens * gates - 2 * 8 * gates
    assert any("cuDNN" in one for one in found.program["notes"])


KERNELS = [("h100-sxm", "cudnn"), ("a100-sxm-80gb", "flash")]


@pytest.mark.parametrize(("card", "kernel"), KERNELS)
def test_attention_is_the_kernel_that_the_card_takes(captured: Captured, card: str, kernel: str) -> None:
    found = captured(program=ATTENTION, cluster=f"{card}:1").captured
    # An activation's gradient is a kernel of a GPU, which other devices write out.
    assert sum("silu_backward" in one.name for one in found.operations) == 1
    assert not [one for one in found.operations if "sigmoid" in one.name]
    names = {one.name for one in found.operations if one.flops}
    assert all(kernel in name for name in names)
    assert len(names) == 2


MOVED = """
import torch
net = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.to("cuda")
tied = torch.nn.Linear(64, 64, device="cuda")
tied.weight = net.weight
attention = torch.nn.MultiheadAttention(64, 4, device="cuda", dtype=torch.bfloat16)
for _ in range(3):
    x = torch.randn(8, 64, device="cuda")
    y = x[None].bfloat16()
    (tied(net(x)).square().mean() + attention(y, y, y, need_weights=False)[0].float().sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_parameters_that_move_stay_those_that_an_optimizer_knows(captured: Captured) -> None:
    found = captured(program=MOVED).captured
    assert found.by_phase["optimizer"] > 0
    # Attention inside PyTorch's own modules takes the card's kernel too.
    assert [one.name for one in found.operations if "attention" in one.name]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            MODEL + "x = torch.rand(400, device='cuda')\nx.nonzero()\n",
            r"nonzero.* at train\d+\.py:\d+ .* depends on its values",
        ),
        ("import torch\ntorch.distributed.init_process_group('nccl')\n", "as in --ranks 8"),
        ("import torch\ntorch.zeros(1, device='cuda:1')\n", "the card cuda:0 alone"),
        (CLOSURE.replace("Adam(", "LBFGS("), "LBFGS evaluates the loss as often as its values need"),
        ("import torch\ntorch.nn.Embedding(8, 8, sparse=True).cuda()(torch.ones(1).long().cuda())\n", "sparse=False"),
        ("import torch\ntorch.ones(0, 4, device='cuda') @ torch.ones(4, 4, device='cuda')\n", "of no elements"),
    ],
)
def test_what_cannot_be_captured_is_refused_by_name(captured: Captured, program: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        captured(program=program)


@pytest.mark.usefixtures("own_process")
def test_the_command_refuses_with_exit_code_two_and_leaves_no_file(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "step.capture"
    script.write_text("import torch\n")
    ran = cli_runner.run("capture", str(script), "-c", "h100-sxm:1", "-o", str(out))
    assert ran.code == 2
    assert "optimizer steps" in ran.err
    assert list(tmp_path.iterdir()) == [script]


def runs(process: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_a_capture_that_is_killed_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    script, said = tmp_path / "train.py", tmp_path / "pid"
    script.write_text(
        f"import os, time, pathlib\npathlib.Path({str(said)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    command = [sys.executable, "-m", "lockstep", "capture", str(script), "-c", "h100-sxm:1"]
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=own
    ) as process:
        while not (said.exists() and said.read_text()):
            time.sleep(0.05)
        process.kill()
    while runs(int(said.read_text())):
        time.sleep(0.05)
    assert not [one.name for one in tmp_path.iterdir() if "capture" in one.name]


def test_a_capture_is_read_without_torch_and_torch_here_is_as_it_was(captured: Captured) -> None:
    import torch

    found = captured()
    assert torch._C._get_privateuse1_backend_name() == "privateuseone"
    code = f"import sys, lockstep; lockstep.memory({found.path!r}); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_releases_of_torch_without_such_a_device_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr("lockstep.run.capture.start.version", lambda name: "2.4.1+cu121")
    with pytest.raises(BadInput, match=r"2\.9 or newer, found 2\.4\.1"):
        lockstep.capture(str(tmp_path / "train.py"), cluster="h100-sxm:1", out=tmp_path / "step.capture")


def test_formats_of_weights_in_files_are_those_of_torch() -> None:
    """As safetensors names them; of each, the bits are in the name."""
    import torch

    from lockstep.run.capture.libraries.safetensors import format_of

    bits = {name: int(name.lstrip("BFIU").partition("_")[0]) for name in ("BF16", "F8_E4M3", "F8_E5M2", "I64", "U8")}
    assert {name: format_of(name).itemsize * 8 for name in bits} == bits
    assert format_of("BF16") == torch.bfloat16
    assert format_of("BOOL") == torch.bool


def test_damaged_captures_are_refused(tmp_path: Path, captured: Captured) -> None:
    with zipfile.ZipFile(captured().path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    program = json.loads(parts["program.json"])
    lacking = [program | {name: None} for name in program if name != "cluster"]
    damaged = [
        parts | {"program.json": json.dumps(one)}
        for one in [*lacking, program | {"ranks": 0}, program | {"groups": [1]}]
    ]
    damaged.append({name: text for name, text in parts.items() if name != "tensors.csv"})
    damaged.append(parts | {"tensors.csv": parts["tensors.csv"].replace("activations", "other", 1)})
    head, row, rest = parts["operations.csv"].split("\n", 2)
    damaged += [
        parts | {"operations.csv": f"{head}\n{one}\n{rest}"} for one in (row + "unknown", row.replace(",0,", ",x,"))
    ]
    for number, one in enumerate(damaged):
        path = tmp_path / f"{number}.capture"
        with zipfile.ZipFile(path, "w") as file:
            for name, text in one.items():
                file.writestr(name, text)
        with pytest.raises(BadInput, match="capture"):
            read_captured(path)


def test_files_that_are_no_captures_are_refused(tmp_path: Path, captured: Captured) -> None:
    (tmp_path / "text.capture").write_text("hello")
    with pytest.raises(BadInput, match="is not a capture"):
        read_captured(tmp_path / "text.capture")
    assert json.loads(json.dumps(captured().to_dict()))["memory"]["fits"] is True


def test_values_of_an_argument(tmp_path: Path) -> None:
    """Each is captured with its place in the arguments filled, and a width changes what it changes."""
    script = tmp_path / "train.py"
    script.write_text(WIDTHS)
    out = tmp_path / "step.capture"
    said = cli_runner.run(
        "capture", str(script), *f"-c h100-sxm:1 --vary wide=128,256,384 -o {out} -- 8".split(), "{wide}"
    )
    assert said.code == 0
    found = lockstep.memory(out, at={"wide": 1024})
    assert found.captured.program["parameters"] == 64 * 1024
    assert found.captured.flops == 2 * 2 * 8 * 64 * 1024
    assert found.name == "train.py 8 1024"
    assert found.at(wide=256).captured.peak_B < found.captured.peak_B


WIDTHS = """
import sys, torch
rows, wide = map(int, sys.argv[1:])
net = torch.nn.Linear(64, wide, bias=False, device="cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
while True:
    net(torch.randn(rows, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"vary": {"wide": [2, 3]}}, "no argument of the script has {wide}"),
        ({"vary": {"wide": [2]}}, "at least two values of wide"),
        ({"vary": ["wide"]}, "must be NAME=VALUE"),
    ],
)
def test_what_cannot_be_varied(tmp_path: Path, words: dict[str, object], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        lockstep.capture("train.py", cluster="h100-sxm:1", out=tmp_path / "step.capture", **words)


def test_a_file_of_one_step_has_no_other_values(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="applies to a captured step"):
        lockstep.memory("llama3-8b", "dgx-h100:1", at={"batch": 2})


def test_autocast_casts_what_pytorch_casts() -> None:
    """By the lists of PyTorch's own header: joined tensors and grouped products, for two, are on none of them."""
    from lockstep.run.capture.autocast import LISTS

    text = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text("utf-8")
    names = {"half": "LOWER_PRECISION_FP", "wide": "FP32", "in_fp32": "FP32_SET_OPT_DTYPE", "widest": "PROMOTE"}
    for how, name in names.items():
        (body,) = re.findall(rf"#define AT_FORALL_{name}\(_\)(.*?)\n\n", text, re.DOTALL)
        assert {*LISTS[how]} == {*re.findall(r"_\((\w+)", body)}, how
