"""Training loops that were tried against capture and failed once, each in a program of a few lines."""

from collections import Counter
from collections.abc import Callable

import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.captured import COLLECTIVES, Captured

torch = pytest.importorskip("torch", minversion="2.9")

Capture = Callable[..., Captured]
ROWS, WIDTH, RANKS = 8, 64, 4
PRODUCT = 2 * ROWS * WIDTH * WIDTH
"""FLOPs of a layer's product."""
BEGIN = """
import sys, torch
import torch.nn.functional as F
net = torch.nn.Linear(64, 64, bias=False).cuda()
make, x = torch.optim.AdamW, lambda: torch.randn(8, 64, device="cuda")
loss = lambda: net(x()).square().mean()
"""
STEP = """
optimizer = make(net.parameters(), lr=0.1)
for _ in range(3):
    loss().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
COPIES = """
torch.distributed.init_process_group("nccl")
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
"""
BOTH = 2 * PRODUCT
"""Of a layer whose input needs no gradient."""


def held_B(found: Captured, category: str) -> int:
    return sum(one.size_B for one in found.lives if one.category == category)


def sent_B(found: Captured) -> Counter[str]:
    """Bytes of collectives by name."""
    given: Counter[str] = Counter()
    for one in found.operations:
        if one.name in COLLECTIVES:
            given[one.name] += one.size_B
    return given


HOOKS = {
    "default_hooks.allreduce_hook": 4,
    "default_hooks.bf16_compress_hook": 2,
    "default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)": 2,
    "own": 2,
}
HOOK = """
def own(state, bucket):
    assert bucket.index() == 0 and bucket.is_last() and bucket.parameters() == [net.module.weight]
    assert bucket.gradients()[0].shape == (64, 64)
    half = bucket.buffer().to(torch.bfloat16).div_(4)
    work = torch.distributed.all_reduce(half, async_op=True)
    return work.get_future().then(lambda done: bucket.buffer().copy_(done.value()[0]))
net = DistributedDataParallel(net, gradient_as_bucket_view="view" in sys.argv)
net.register_comm_hook(None, eval(sys.argv[1]))
"""


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_of_copied_models_send_what_they_say(capture: Capture, hook: str) -> None:
    """What is made of a sum is made beside the stream of the moment, which waits for it."""
    for words in (hook,), (hook, "view"):
        found = capture(BEGIN + COPIES + HOOK + STEP, *words, ranks=RANKS)
        assert sent_B(found) == {"all-reduce": HOOKS[hook] * WIDTH * WIDTH}
        assert found.flops == BOTH
        waits = {one.event for one in found.operations if one.name == "wait" and one.stream == 0}
        beside = {one.event for one in found.operations if one.name == "record" and one.stream}
        assert waits & beside
        if HOOKS[hook] == 2:
            assert [one for one in found.operations if "copy_" in one.name and one.stream]


def test_copied_models_with_unused_parameters_say_which_they_used(capture: Capture) -> None:
    """Four bytes for each parameter. What a program leaves out of the copies is not summed."""
    made = 'net.other = torch.nn.Linear(64, 64, bias=False).cuda()\nif "ignored" in sys.argv:\n'
    made += '    net._ddp_params_and_buffers_to_ignore = ["other.weight"]\n'
    made += "net = DistributedDataParallel(net, find_unused_parameters=True)\n"
    for words, count in ((), 2), (("ignored",), 1):
        found = capture(BEGIN + COPIES + made + STEP, *words, ranks=RANKS)
        assert sent_B(found) == {"all-reduce": count * (4 * WIDTH * WIDTH + 4)}


MESH = """
mesh = torch.distributed.init_device_mesh("cuda", (2, 2), mesh_dim_names=("copies", "parts"))
net = DistributedDataParallel(net, device_mesh=mesh["copies"])
"""


def test_copies_are_those_of_a_mesh(capture: Capture) -> None:
    found = capture(BEGIN + COPIES + MESH + STEP, ranks=RANKS)
    assert {tuple(found.groups[one.group]) for one in found.operations if one.group} == {(0, 2)}


MIXED = "from torch.nn.parallel.distributed import _MixedPrecision as Mixed\n"
OVERLAPPED = """
from torch.distributed.optim import _apply_optimizer_in_backward
_apply_optimizer_in_backward(torch.optim.SGD, net.parameters(), {"lr": 0.1})
net = DistributedDataParallel(net)
"""
REFUSED = [
    (MIXED + "net = DistributedDataParallel(net, mixed_precision=Mixed())\n", r"mixed_precision.*use torch\.autocast"),
    ("net = DistributedDataParallel(net)\nnet.join()\n", "give all ranks equally many batches"),
    ("net = torch.nn.DataParallel(net)\n", "use DistributedDataParallel, a rank for each"),
    (OVERLAPPED, "update after it"),
]


@pytest.mark.parametrize(("made", "said"), REFUSED)
def test_copies_that_are_not_captured_are_refused(capture: Capture, made: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        capture(BEGIN + COPIES + made + STEP, ranks=RANKS)


def test_a_model_for_several_cards_runs_on_one(capture: Capture) -> None:
    made = "net, x = torch.nn.DataParallel(net), lambda: torch.randn(8, 64)\n"
    assert capture(BEGIN + made + STEP).flops == BOTH


HERE = """
torch.set_default_device("cuda")
net, x = torch.nn.Linear(64, 64, bias=False), lambda: torch.randn(8, 64)[torch.arange(8)]
assert net.weight.is_cuda and torch.tensor([1.0]).is_cuda and torch.get_default_device().type == "cuda"
torch.set_default_device(None)
assert not torch.ones(1).is_cuda
with torch.device("cuda"):
    net = torch.nn.Linear(64, 64, bias=False)
x = lambda: torch.randn(8, 64, device="cuda")
"""
ANSWERS = """
torch.cuda.memory._record_memory_history(max_entries=10)
torch.cuda.memory._dump_snapshot("never")
assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.cuda.memory.max_memory_allocated() > 0
assert torch.cuda.memory_stats()["num_alloc_retries"] == 0 and torch.cuda.memory_summary()
torch.cuda.cudart().cudaProfilerStart()
with torch.cuda.device(0):
    pass
"""
COMPILED = """
compiled = torch.compile(net, mode="reduce-overhead")
assert compiled._orig_mod is net and list(compiled.state_dict()) == ["weight"] and len(list(net.modules())) == 1
"""
FUSED = """
make = lambda given, lr: torch.optim.SGD(given, lr=torch.tensor(lr, device="cuda"), momentum=0.9, fused=True)
"""


@pytest.mark.parametrize("program", [HERE, ANSWERS, COMPILED, FUSED])
def test_what_loops_say_and_ask(capture: Capture, program: str) -> None:
    found = capture(BEGIN + program + STEP)
    assert found.flops == BOTH
    assert held_B(found, "optimizer") in (2 * 4 * WIDTH * WIDTH + 4, 2 * 4 * WIDTH * WIDTH, 4 * WIDTH * WIDTH)


EVALUATED = """
net = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, 64, batch_first=True), 1).cuda()
x = lambda: torch.randn(2, 4, 64, device="cuda")
net.eval()
with torch.no_grad():
    loss()
net.train()
"""


def test_layers_of_pytorch_are_evaluated_without_kernels_for_bytes(capture: Capture) -> None:
    found = capture(BEGIN + EVALUATED + STEP)
    assert not [one for one in found.operations if "encoder_layer_fwd" in one.name]


ENDS = """
texts = torch.randint(1, 64, (2, 5), device="cuda")
def loss():
    odds = net(torch.randn(20, 2, 64, device="cuda")).log_softmax(-1)
    return F.ctc_loss(odds, texts, torch.tensor([20, 20]), torch.tensor([5, 3]))
"""


def test_losses_of_aligned_texts_keep_twice_the_longest_and_one(capture: Capture) -> None:
    found = capture(BEGIN + ENDS + STEP)
    (made,) = [one.tensors()[one.reads :] for one in found.operations if one.name.startswith("aten._ctc_loss.")]
    assert made == (((2,), "float32"), ((2, 20, 11), "float32"))


EXPERTS = """
gate = torch.nn.Linear(64, 4, bias=False).cuda()
experts = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(4)).cuda()
net = torch.nn.ModuleList([gate, experts])
def loss():
    rows = torch.randn(8, 64, device="cuda")
    weights, chosen = gate(rows).softmax(-1).topk(2)
    return LOOP.square().mean()
"""
LOOPS = {
    "where": """
def loop(rows, weights, chosen):
    out = torch.zeros_like(rows)
    for number, expert in enumerate(experts):
        at, place = torch.where(F.one_hot(chosen, 4).permute(2, 1, 0)[number])
        out.index_add_(0, place, expert(rows[place]) * weights[place, at, None])
    return out
""",
    "mask": """
def loop(rows, weights, chosen):
    out = torch.zeros_like(rows)
    for number, expert in enumerate(experts):
        out[(chosen == number).any(-1)] += expert(rows[(chosen == number).any(-1)])
    return out
""",
    "sorted": """
def loop(rows, weights, chosen):
    order = chosen.view(-1).argsort()
    counts = torch.bincount(chosen.view(-1), minlength=4).tolist()
    parts = rows.repeat_interleave(2, 0)[order].split(counts)
    return torch.cat([expert(part) for expert, part in zip(experts, parts)])
""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_over_experts_have_the_rows_that_an_answer_says(capture: Capture, name: str) -> None:
    """Four of eight rows go to each of four experts, two for each row; without an answer the line is named."""
    program = BEGIN + LOOPS[name] + EXPERTS.replace("LOOP", "loop(rows, weights, chosen)") + STEP
    asked = ("torch.where(", ".any(-1)", "torch.bincount(")
    line = next(at for at, text in enumerate(program.splitlines(), 1) if any(one in text for one in asked))
    with pytest.raises(BadInput, match=rf"--answer train.py:{line}=NUMBER"):
        capture(program)
    found = capture(program, answer=[f"train.py:{line}=4"])
    products = Counter(one.phase for one in found.operations if one.flops == 2 * 4 * WIDTH * WIDTH)
    # The gradient of rows, which are data, is needed by nobody.
    assert products == {"forward": 4, "backward": 4}
    assert {(one["place"], one["answer"]) for one in found.program["values"]} == {(f"train.py:{line}", "4")}


OWN = """
@torch.library.custom_op("mine::double", mutates_args=())
def double(one: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(one.cpu().numpy() * 2).to(one.device)
double.register_fake(torch.empty_like)
double.register_autograd(lambda known, grad: grad * 2, setup_context=lambda ctx, inputs, output: None)
loss = lambda: double(net(x())).square().mean()
"""


def test_operations_that_are_not_of_pytorch_have_no_time(capture: Capture) -> None:
    assert capture(BEGIN + STEP).program["untimed"] == ""
    assert capture(BEGIN + OWN + STEP).program["untimed"].startswith("mine::double: no operations of PyTorch")


def test_kernels_that_need_a_gpu_are_told_from_what_is_not_installed(capture: Capture) -> None:
    with pytest.raises(BadInput, match=r"flash_attn_interface.*use PyTorch's own operations at train.py:1"):
        capture("import flash_attn_interface\n")
    with pytest.raises(BadInput, match=r"No module named 'not_there' at train.py:1"):
        capture("import not_there\n")


VIEWED = """
flat = torch.nn.Parameter(torch.randn(64, 64, device="cuda"))
part = flat[:2]
flat.data = flat.to("cpu")
assert not flat.is_cuda and part.is_cuda and flat.is_leaf
flat.data = flat.to("cuda")
net.weight = flat
import weakref
known, net = weakref.ref(net.weight), net.cpu()
assert known() is net.weight and not net.weight.is_cuda
net = net.cuda()
assert known() is net.weight and net.weight.is_cuda
"""
SAVED = """
torch.distributed.init_process_group("nccl")
import torch.distributed.checkpoint as files
from torch.distributed.fsdp import FullyShardedDataParallel
net = FullyShardedDataParallel(net, use_orig_params=True)
files.save({"model": net.state_dict()}, checkpoint_id="never")
files.async_save({"model": net.state_dict()}, checkpoint_id="never").result()
assert FullyShardedDataParallel.optim_state_dict(net, None) == {}
told = [None] * 4
torch.distributed.all_gather_object(object_list=told, obj=1)
torch.distributed.gather_object(obj=2, object_gather_list=told, dst=0)
assert told == [2] * 4
"""


def test_parameters_that_others_view_or_know_move(capture: Capture) -> None:
    assert capture(BEGIN + VIEWED + STEP).flops == BOTH


def test_checkpoints_of_several_ranks_are_left_out(capture: Capture) -> None:
    found = capture(BEGIN + SAVED + STEP, ranks=RANKS)
    assert found.flops == BOTH
    assert [note for note in found.program["notes"] if note.startswith("checkpoints of several ranks: nothing")]


RING = """
import types
from torch.distributed.tensor.experimental import context_parallel
torch.distributed.init_process_group("nccl")
mesh = torch.distributed.init_device_mesh("cuda", (4,))
def loss():
    rows = torch.randn(1, 64, 64, device="cuda", dtype=torch.bfloat16)
    with context_parallel(mesh, buffers=[rows], buffer_seq_dims=[1]), torch.autocast("cuda", torch.bfloat16):
        heads = net(rows).view(1, -1, 4, 16).transpose(1, 2)
        F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).square().mean().backward()
    return types.SimpleNamespace(backward=lambda: None)
"""


def test_attention_of_a_ring_does_its_part_of_a_causal_mask(capture: Capture) -> None:
    """Each rank has 16 of 64 rows: its own under the mask, counted whole, and half of those of three others."""
    found = capture(BEGIN + RING + STEP, ranks=RANKS)
    whole = 4 * 4 * 16 * 16 * 16
    attention = sum(one.flops for one in found.operations if "attention" in one.name and one.phase == "forward")
    assert attention == whole * (1 + 3 / 2)


STAGED = """
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
torch.distributed.init_process_group("nccl")
part = torch.randn(2, 64, device="cuda", requires_grad="needed" in sys.argv)
ends = part.detach().requires_grad_(sys.argv[1] != "shapes")
given = {} if sys.argv[1] == "nothing" else {"input_args": part, "output_args": ends}
rank = torch.distributed.get_rank()
stage = PipelineStage(net, rank, 4, torch.device("cuda"), **given)
schedule = Schedule1F1B(stage, 4, torch.nn.functional.mse_loss)
def loss():
    schedule.step(*([] if rank else [x()]))
    return types.SimpleNamespace(backward=lambda: None)
"""


@pytest.mark.parametrize("given", ["nothing", "shapes"])
def test_stages_that_other_ranks_would_describe_are_refused_with_what_to_give(capture: Capture, given: str) -> None:
    with pytest.raises(BadInput, match=r"give PipelineStage\(input_args=.*, output_args=.* at train.py:\d+"):
        capture(BEGIN + "import types\n" + STAGED + STEP, given, ranks=RANKS)


def test_stages_that_are_described_are_captured(capture: Capture) -> None:
    """The second of four sends activations on and gradients back, and needs those of what it was sent."""
    first = capture(BEGIN + "import types\n" + STAGED + STEP, "all", ranks=RANKS)
    assert (first.flops, sent_B(first)) == (BOTH, {"send": 4 * ROWS * WIDTH, "recv": 4 * ROWS * WIDTH})
    second = capture(BEGIN + "import types\n" + STAGED + STEP, "needed", ranks=RANKS, rank=1)
    assert (second.flops, sent_B(second)) == (3 * PRODUCT, {"send": 8 * ROWS * WIDTH, "recv": 8 * ROWS * WIDTH})


TURNS = """
other = torch.nn.Linear(64, 64, bias=False).cuda()
frozen = torch.nn.Linear(64, 64, bias=False).cuda().requires_grad_(False)
critic = torch.optim.SGD([*other.parameters(), *frozen.parameters()], lr=0.1)
def loss():
    other.requires_grad_(True)
    other(frozen(net(x()).detach())).mean().backward()
    critic.step()
    critic.zero_grad()
    other.requires_grad_(False)
    return other(net(x())).mean()
"""


def test_parameters_that_are_frozen_for_a_while_are_trained(capture: Capture) -> None:
    """As a critic is, while what it judges is updated; what always is so is not."""
    found = capture(BEGIN + TURNS + STEP).program
    assert (found["parameters"], found["trained_parameters"]) == (3 * WIDTH * WIDTH, 2 * WIDTH * WIDTH)


RAGGED = """
parts = [torch.randn(5, 64, device="cuda"), torch.randn(7, 64, device="cuda")]
loss = lambda: net(torch.nested.nested_tensor(parts, layout=torch.jagged)).values().square().mean()
"""


def test_tensors_of_symbols_are_refused_with_what_to_use(capture: Capture) -> None:
    with pytest.raises(BadInput, match=r"Nested tensors have sizes that are symbols: use padding at train.py:\d+"):
        capture(BEGIN + RAGGED + STEP)


TRACED = """
from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline
torch.distributed.init_process_group("nccl")
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(4)))
cut = pipeline(net, mb_args=(torch.randn(2, 64),), split_spec={"2": SplitPoint.BEGINNING})
stage = cut.build_stage(0, torch.device("cuda"))
net, schedule = stage.submod, ScheduleGPipe(stage, 4, torch.nn.functional.mse_loss)
def loss():
    schedule.step(x())
    return types.SimpleNamespace(backward=lambda: None)
"""


def test_stages_of_a_traced_model_are_on_the_card(capture: Capture) -> None:
    found = capture(BEGIN + "import types\n" + TRACED + STEP, ranks=2)
    assert found.flops == (2 + 3) * PRODUCT
    assert found.program["parameters"] == 2 * WIDTH * WIDTH


PACKED = """
cell = torch.nn.LSTM(64, 64).cuda()
def loss():
    rows = torch.nn.utils.rnn.pack_padded_sequence(net(torch.randn(9, 2, 64, device="cuda")), torch.tensor([9, 5]))
    return cell(rows)[0].data.square().mean()
"""


def test_an_answer_is_asked_for_where_it_helps(capture: Capture) -> None:
    with pytest.raises(BadInput, match=r"_pack_padded_sequence.* or leave it out of the step$"):
        capture(BEGIN + PACKED + STEP)
