"""What public training scripts do, each in a program of a few lines: its step by arithmetic."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from effort import share
from lockstep.base.errors import BadInput
from lockstep.describe.captured import COLLECTIVES, Captured

torch = pytest.importorskip("torch", minversion="2.9")

Capture = Callable[..., Captured]
LAYERS, ROWS, WIDTH = 3, 8, 64
PRODUCT = 2 * ROWS * WIDTH * WIDTH
"""FLOPs of a layer's product."""


def flops_by_phase(found: Captured) -> Counter[str]:
    given: Counter[str] = Counter()
    for one in found.operations:
        given[one.phase] += one.flops
    return +given


UPDATES_INSIDE = """
import torch
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(3))).cuda()
optimizers = {one: torch.optim.AdamW([one]) for one in net.parameters()}
def update(one):
    optimizers[one].step()
    optimizers[one].zero_grad()
for one in net.parameters():
    one.register_post_accumulate_grad_hook(update)
for _ in range(3):
    net(torch.randn(8, 64, device="cuda")).square().mean().backward()
"""


def test_updates_inside_the_backward_pass_leave_what_follows_in_it(capture: Capture) -> None:
    """The last layer is updated before gradients of the first are made."""
    found = capture(UPDATES_INSIDE)
    assert flops_by_phase(found) == {"forward": LAYERS * PRODUCT, "backward": (2 * LAYERS - 1) * PRODUCT}
    phases = [one.phase for one in found.operations]
    assert phases[0] == "forward"
    assert phases[phases.index("optimizer") :].count("backward") > 0
    assert sum("_fused_adam" in one.name or "addcdiv" in one.name for one in found.operations) == LAYERS


REENTRANT = """
import torch
from torch.utils.checkpoint import checkpoint
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(3))).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    for layer in net:
        x = checkpoint(layer, x, use_reentrant=True)
    x.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_what_is_recomputed_after_a_backward_pass_in_another_one_is_no_forward_pass(capture: Capture) -> None:
    given = flops_by_phase(capture(REENTRANT))
    assert given == {"forward": LAYERS * PRODUCT, "recompute": LAYERS * PRODUCT, "backward": 2 * LAYERS * PRODUCT}


STEP = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CHANGED = (
    """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64, bias=False)
    def forward(self, x):
        ends = torch.full((8,), 8, device="cuda")
        words = torch.arange(64).view(8, 8).to("cuda")
        row = words[3]
        words[:, :5] = -100                     # A part of it is changed, and what was a part before too.
        row[7] = -100
        kept = words != -100
        ends[kept.any(1)] = kept.int().argmax(1)[kept.any(1)]
        assert ends.tolist() == [5] * 8, ends.tolist()
        count = x.new_zeros((), dtype=torch.long)
        count += kept.sum()
        assert count.item() == 23
        unknown = torch.randn(8, 8, 64, device="cuda").argmax(-1)
        words[:, 6] = unknown[:, 0]             # From here on nothing of it is known.
        assert set(words.flatten().tolist()) == {1} == set(row.tolist())
        return self.layer(x)[kept.flatten()].square().mean()
net = Net().cuda()
batch = lambda: torch.randn(64, 64, device="cuda")
"""
    + STEP
)


def test_values_of_data_stay_known_where_a_part_of_it_is_changed(capture: Capture) -> None:
    found = capture(CHANGED)
    assert {one.shapes.rpartition(";")[2] for one in found.operations if one.name.startswith("aten.index.")} == {
        "8:int64",
        "23x64:float32",
    }
    assert {one["kind"] for one in found.program["values"]} == {"int"}


FINITE = (
    """
import torch
class Net(torch.nn.Linear):
    def forward(self, x):
        norms = super().forward(x).square().mean(1)
        return norms[~torch.isnan(norms)].sum()
net = Net(64, 64, bias=False).cuda()
batch = lambda: torch.randn(8, 64, device="cuda")
"""
    + STEP
)


def test_what_is_left_where_numbers_that_are_not_finite_are_left_out_is_all(capture: Capture) -> None:
    found = capture(FINITE)
    assert {one.shapes.rpartition(";")[2] for one in found.operations if one.name.startswith("aten.index.")} == {
        "8:float32"
    }


ON_THE_CARD = (
    """
import torch
def together(rows):
    return torch.stack(rows).to("cuda") * torch.ones(64, device="cuda")
data = iter(torch.utils.data.DataLoader([torch.randn(64) for _ in range(64)], batch_size=8, collate_fn=together))
class Net(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).square().mean()
net = Net(64, 64, bias=False).cuda()
batch = lambda: next(data)
"""
    + STEP
)


def test_data_that_is_put_on_the_card_as_it_is_read_is_there(capture: Capture) -> None:
    found = capture(ON_THE_CARD)
    assert found.flops == 2 * PRODUCT
    assert sum(one.size_B == ROWS * WIDTH * 4 for one in found.lives if one.category == "activations") >= 2


DATASET = (
    """
import torch
class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.rows, self.labels = torch.randn(64, 64), torch.arange(64) % 7
    def __len__(self):
        return 64
    def __getitem__(self, at):
        label = int(self.labels[at])
        assert label == at % 7
        return torch.from_numpy(self.rows[at].numpy()), label if int(self.rows[at].argmax()) >= 0 else None
data = iter(torch.utils.data.DataLoader(Data(), batch_size=8))
class Net(torch.nn.Linear):
    def forward(self, batch):
        return super().forward(batch[0].cuda()).square().mean()
net = Net(64, 64, bias=False).cuda()
batch = lambda: next(data)
"""
    + STEP
)


def test_data_that_a_program_holds_in_tensors_is_read_with_its_values(capture: Capture) -> None:
    assert capture(DATASET).flops == 2 * PRODUCT


REFERENCE = (
    """
import copy, torch
class Net(torch.nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            said = reference[0](x)
        return (super().forward(x) - said).square().mean()
net = Net(64, 64, bias=False).cuda()
reference = [torch.nn.Linear(64, 64, bias=False).cuda()]
batch = lambda: torch.randn(8, 64, device="cuda")
"""
    + STEP
)


def test_parameters_that_no_optimizer_has_are_not_trained(capture: Capture) -> None:
    """Of a reference model, whose parameters would have gradients if one were asked for."""
    program = capture(REFERENCE).program
    assert (program["parameters"], program["trained_parameters"]) == (2 * WIDTH * WIDTH, WIDTH * WIDTH)


MARKED = (
    """
import torch
class Net(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).square().mean()
net = Net(64, 64, bias=False)
net.weight.of_an_expert = True
net.cuda()
net.weight.data = net.weight.data.clone()
assert net.weight.of_an_expert
batch = lambda: torch.randn(8, 64, device="cuda")
"""
    + STEP
)


def test_what_a_program_marks_a_parameter_with_stays_where_it_moves(capture: Capture) -> None:
    """As of experts, whose gradients other ranks sum, and of norms between tensor-parallel ranks."""
    assert capture(MARKED).flops == 2 * PRODUCT


LAZY = (
    """
import sys, torch
from torch.storage import TypedStorage, UntypedStorage
file = torch.PyTorchFileReader(sys.argv[1])
bytes_ = file.get_storage_from_record("data/0", 64 * 64 * 4, UntypedStorage)._typed_storage()._untyped_storage
storage = TypedStorage(wrap_storage=bytes_, dtype=torch.float32, _internal=True)
class Net(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).square().mean()
net = Net(64, 64, bias=False)
net.load_state_dict({sys.argv[2]: torch._utils._rebuild_tensor_v2(storage, 0, (64, 64), (64, 1), False, {})})
net.cuda()
batch = lambda: torch.randn(8, 64, device="cuda")
"""
    + STEP
)


def test_weights_that_a_program_reads_from_a_file_by_itself_are_loaded(capture: Capture, tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(64, 64)}, tmp_path / "weights.pt")
    assert capture(LAZY, str(tmp_path / "weights.pt"), "weight").flops == 2 * PRODUCT
    with pytest.raises(
        BadInput, match=r"Error\(s\) in loading state_dict for Net: Missing key\(s\).*weight.* at train"
    ):
        capture(LAZY, str(tmp_path / "weights.pt"), "other")


def test_cuda_graphs_are_refused_and_their_type_may_be_named(capture: Capture) -> None:
    with pytest.raises(BadInput, match=r"CUDA graphs run kernels again .* at train.py:4"):
        capture("import torch\ndef kept() -> torch.cuda.CUDAGraph | None:\n    pass\ntorch.cuda.CUDAGraph()\n")


@pytest.mark.parametrize("name", ["flex_attention", "create_block_mask"])
def test_attention_that_a_compiler_writes_is_refused_and_so_are_its_masks(capture: Capture, name: str) -> None:
    program = f"from torch.nn.attention.flex_attention import {name}\nmade = {name}(1, 2, 3)\n"
    with pytest.raises(BadInput, match=r"flex_attention is a kernel that torch.compile writes.* at train.py:2"):
        capture(program)


SPREAD = """
import torch
q = torch.nn.Parameter(torch.randn(2, 4, 64, 16, device="cuda", dtype=torch.bfloat16))
prefix = torch.randn(1, 4, 10, 16, device="cuda", dtype=torch.bfloat16)
rows = torch.randn(8, 64, 16, device="cuda", dtype=torch.bfloat16)
optimizer = torch.optim.SGD([q], lr=0.1)
for _ in range(3):
    out = torch.nn.functional.scaled_dot_product_attention(q, prefix, prefix)
    (out.view(8, 64, 16) + torch.nn.functional.scaled_dot_product_attention(rows, rows, rows)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_attention_that_no_fused_kernel_takes_is_two_products(capture: Capture) -> None:
    """Keys of one row for queries of two; and tensors without heads."""
    found = capture(SPREAD)
    assert not [one for one in found.operations if "attention" in one.name]
    product, others = 2 * 2 * 4 * 64 * 10 * 16, 2 * 8 * 64 * 64 * 16
    assert flops_by_phase(found) == {"forward": 2 * product + 2 * others, "backward": 2 * product}


SEQUENCES = """
import torch
from torch.nn.attention.varlen import varlen_attn
q = torch.nn.Parameter(torch.randn(1024, 4, 64, device="cuda", dtype=torch.bfloat16))
optimizer = torch.optim.SGD([q], lr=0.1)
for _ in range(3):
    ends = torch.tensor([0, 1000, 20, 4], device="cuda").cumsum(0).int()
    varlen_attn(q, q, q, ends, ends, 1000, 1000).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_attention_within_sequences_of_one_batch_is_that_of_each(capture: Capture) -> None:
    assert capture(SEQUENCES).flops == (4 + 10) * 4 * 64 * (1000**2 + 20**2 + 4**2)


GENERATED = (
    """
import types, torch
from lockstep.run.capture.libraries import transformers as shim

class Ends:
    def __call__(self, input_ids, scores):
        return input_ids[:, -1] == 2

class Mixin:
    generation_config = types.SimpleNamespace(eos_token_id=[0, 2], pad_token_id=1)
    def generate(self, input_ids, longest):
        while input_ids.shape[1] < longest and not Ends()(input_ids, None).all():
            input_ids = torch.cat([input_ids, self(input_ids)[:, -1:].argmax(-1)], 1)
        return input_ids

notes = []
shim._never_ends(types.SimpleNamespace(EosTokenCriteria=Ends))
shim._generates(types.SimpleNamespace(GenerationMixin=Mixin), notes)

class Net(Mixin, torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = torch.nn.Embedding(64, 64), torch.nn.Linear(64, 64, bias=False)
    def forward(self, ids):
        return self.layer(self.words(ids))
class Whole(Net):
    def forward(self, ids):
        if torch.is_grad_enabled():
            return Net.forward(self, ids).square().mean()
        return Net.forward(self, ids)
net = Whole().cuda()
def batch():
    with torch.no_grad():
        ids = net.generate(torch.tensor([[5, 6]] * 8, device="cuda"), longest=6)
    ends = torch.isin(ids, torch.tensor([0, 2], device="cuda"))
    assert ids.tolist() == [[5, 6, 3, 3, 3, 3]] * 8 and len(notes) == 1
    return ids[~ends]
"""
    + STEP
)


def test_generated_text_has_its_greatest_length_and_no_end(capture: Capture) -> None:
    """Without a cache every token is computed again: 2 + 3 + 4 + 5 of each row, and then 6 of each are trained."""
    found = capture(GENERATED)
    assert flops_by_phase(found) == {"forward": (2 + 3 + 4 + 5 + 6) * PRODUCT, "backward": 2 * 6 * PRODUCT}


TOLD = (
    """
import sys, torch
class Net(torch.nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        count = (y > 0).sum().item() + 1
        every = y[[0, 2, 3]] * (1 / count)
        assert f"{count:d}" == "3" if len(sys.argv) > 2 else "2"
        return eval(sys.argv[1], {"torch": torch, "count": count, "y": every}).square().sum()
net = Net(64, 64, bias=False).cuda()
batch = lambda: torch.randn(8, 64, device="cuda")
"""
    + STEP
)
USES = ["y[:count]", "y[:, 1:count]", "y.view(count, -1)", 'torch.full((count,), 1.0, device="cuda") + 0 * y.sum()']


@pytest.mark.parametrize("use", share(USES, 2))
def test_a_size_that_a_program_was_told_is_refused_with_its_line(capture: Capture, use: str) -> None:
    with pytest.raises(BadInput, match=r"asked for at train.py:6 depends on weights.*--answer train.py:6=NUMBER"):
        capture(TOLD, use)
    assert capture(TOLD, use, "said", answer=["train.py:6=2"]).flops == 2 * PRODUCT


def test_a_number_that_a_program_was_told_may_be_one_among_values(capture: Capture) -> None:
    found = capture(TOLD, "y / count + y[count % 3]")
    assert found.flops == 2 * PRODUCT
    assert [(one["place"], one["answer"]) for one in found.program["values"]] == [("train.py:6", "1")]


RANDOM = """
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
torch.distributed.init_process_group("nccl", rank=-1, world_size=-1)
assert torch.distributed.get_world_size() == 4
assert torch.distributed.is_nccl_available() and torch.cuda.nccl.version() >= (2, 10)
assert torch.distributed.get_backend() is torch.distributed.Backend.NCCL
for_objects = torch.distributed.new_group(backend="gloo")
assert torch.distributed.get_backend(for_objects) == "gloo"
torch.distributed.destroy_process_group(for_objects)
mesh = init_device_mesh("cuda", (4,))
with torch.device("meta"):
    net = torch.nn.Linear(64, 64, bias=False)
fully_shard(net)
net.to_empty(device="cuda")
torch.nn.init.kaiming_uniform_(net.weight)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = distribute_tensor(torch.randn(32, 64, device="cuda"), mesh, [Shard(0)])
    x = torch.nn.functional.dropout(x, 0.1).to_local()
    x = x + torch.randn(8, 64, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    every = torch.distributed.nn.functional.all_gather(net(x))
    sum(one.square().mean() for one in every).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_random_numbers_of_sharded_tensors_and_gathers_with_gradients(capture: Capture) -> None:
    """NCCL sums the gradients of what was gathered where it scatters them; others send all of them to all."""
    found = capture(RANDOM, ranks=4)
    assert sum(one.name == "aten.native_dropout.default" for one in found.operations) == 1
    sent = Counter((one.name, one.phase, one.size_B) for one in found.operations if one.name in COLLECTIVES)
    whole, rows = 64 * 64 * 4, 4 * ROWS * WIDTH * 4
    assert sent["all-gather", "forward", whole] == sent["reduce-scatter", "backward", whole] == 1
    assert sent["all-gather", "forward", rows] == sent["reduce-scatter", "backward", rows] == 1
    assert not [one for one in sent if one[0] == "all-to-all"]


EVALUATES = """
import sys, torch
every = int(sys.argv[1])
layer = lambda: torch.nn.Linear(64, 64, bias=False).cuda()
net, teacher = torch.nn.Sequential(layer(), torch.nn.ReLU(), layer()), layer().eval()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def evaluate():
    net.eval()
    with torch.no_grad():
        for _ in range(5):
            net(torch.randn(32, 64, device="cuda"))
    net.train()

for number in range(int(sys.argv[2])):
    x = torch.randn(32, 64, device="cuda")
    with torch.no_grad():
        aim = teacher(x)
    (net(x) - aim).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if every and number % every == 0:
        evaluate()
"""


def test_an_evaluation_between_the_first_updates_is_left_out_where_it_is_not_in_every_step(capture: Capture) -> None:
    """The step is then that of the program without one, and what was left out is said. A frozen teacher is none.

    A layer is a view and a product, so that five passes of two and an activation are 25 calls.
    """
    plain = capture(EVALUATES, "0", "4")
    assert not [note for note in plain.program["notes"] if "evaluation" in note]
    for every in "2", "3":
        found = capture(EVALUATES, every, "4")
        assert [one.shapes for one in found.operations] == [one.shapes for one in plain.operations]
        assert found.flops == plain.flops
        (note,) = found.program["notes"]
        assert note.startswith("left out, as it is not in every step: an evaluation of Sequential in 25 calls before")


@pytest.mark.parametrize(("every", "steps"), [("1", "4"), ("2", "2")])
def test_an_evaluation_in_every_step_counts_and_is_said(every: str, steps: str, capture: Capture) -> None:
    """So does one of a program that makes no more updates."""
    plain, found = capture(EVALUATES, "0", "4"), capture(EVALUATES, every, steps)
    assert found.flops - plain.flops == 5 * 2 * 2 * 32 * 64 * 64
    assert found.program["notes"] == ["an evaluation of Sequential in 25 calls counts into the step"]
