"""Peak memory on one device against torch's own tracker: real models of `train` on tensors without storage."""

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import FRAMEWORK_B, SLACK_FRAC, Job, Layout, Memory, memory
from lockstep.price.layout.kept import activations_B
from peak_tracker import peak_tracker
from recipes import recipe_by

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 2
"""The optimizer's states exist from the second step on."""
HEAD = 128
SHAPES = {
    # classes, hidden, layers, sequences, tokens
    "wide vocabulary": (32_000, 1024, 4, 4, 1024),
    "few tokens": (32_000, 1024, 4, 1, 256),
    "narrow vocabulary": (2_000, 2048, 4, 8, 1024),
    "deep": (2_000, 1024, 12, 4, 512),
    "long": (512, 512, 6, 1, 8192),
}


def transformer(classes: int, hidden: int, layers: int, seq: int) -> Transformer:
    """What `train`'s GPT is called here."""
    heads = hidden // HEAD
    return Transformer(
        name="gpt",
        layers=layers,
        hidden=hidden,
        vocab=classes,
        attention=Attention(heads=heads, kv_heads=heads, head_dim=HEAD, qkv_bias=True, out_bias=True),
        mlp=Mlp(ffn=4 * hidden, gated=False, activation="gelu", in_bias=True, out_bias=True),
        positions="learned",
        max_positions=seq,
        norm="layernorm",
        head_bias=True,
    )


def predicted(shape: str, recompute: str, dtype: str) -> Memory:
    """Memory of torch's eager kernels, everything in one format."""
    classes, hidden, layers, sequences, seq = SHAPES[shape]
    each_B, optimizer = (2.0, "adamw-bf16") if dtype == "bf16" else (4.0, "adamw-no-master")
    recipe = recipe_by(
        "hf-trainer", seq=seq, batch=sequences, dtype=dtype, optimizer=optimizer, gradient_B=each_B, parameter_B=each_B
    )
    job = Job(transformer(classes, hidden, layers, seq), recipe, 1)
    layout = Layout(micro_batch=sequences, recompute=recompute)
    return memory(job, cluster("dgx-a100-80gb", gpus=1), layout.grid())


def tracked_B(monkeypatch: pytest.MonkeyPatch, shape: str, recompute: str, dtype: str) -> float:
    """The most that tensors of the model, its gradients and its optimizer hold at once."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.checkpoint import checkpoint

    from lockstep.run.train import networks

    classes, hidden, layers, sequences, seq = SHAPES[shape]
    for name, value in (("HIDDEN", hidden), ("HEAD", HEAD), ("WINDOW", seq)):
        monkeypatch.setattr(networks, name, value)
    with FakeTensorMode():
        torch.set_default_dtype(torch.bfloat16 if dtype == "bf16" else torch.float32)
        try:
            first, *blocks, last = networks.gpt(layers + 2, classes)
        finally:
            torch.set_default_dtype(torch.float32)
        model = torch.nn.ModuleList([first, *blocks, last])
        optimizer, tracker = torch.optim.AdamW(model.parameters(), foreach=True), peak_tracker()
        tracker.track_external(model, optimizer)
        x, y = (torch.randint(0, classes, (sequences, seq)) for _ in range(2))
        with tracker:
            for _ in range(STEPS):
                hidden_state = first(x)
                for block in blocks:
                    hidden_state = (
                        checkpoint(block, hidden_state, use_reentrant=False)
                        if recompute == "full"
                        else block(hidden_state)
                    )
                logits = last(hidden_state).float()
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
                del logits, hidden_state
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                tracker.reset_mod_stats()
        found = tracker.get_tracker_snapshot("peak")
    return float(sum(sizes["Total"] for sizes in found.values()))


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("shape", SHAPES)
def test_peak_memory_matches_torch(monkeypatch: pytest.MonkeyPatch, shape: str, recompute: str, dtype: str) -> None:
    found = predicted(shape, recompute, dtype)
    held_B = (float(found.total_B) - FRAMEWORK_B) / (1 + SLACK_FRAC)
    assert held_B == pytest.approx(tracked_B(monkeypatch, shape, recompute, dtype), rel=0.03)


class Compiled(torch.autograd.Function):  # type: ignore[misc]
    """A cross entropy that torch.compile has made one kernel either way: logits are read and written in bf16 alone."""

    @staticmethod
    def forward(ctx: object, logits: object) -> object:
        ctx.save_for_backward(logits)  # type: ignore[attr-defined]
        return logits.new_empty(())  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: object, _: object) -> object:
        (logits,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return torch.empty_like(logits)


@pytest.mark.parametrize("trained", [True, False])
def test_a_chunked_loss_holds_all_logits_and_the_gradients_of_one_chunk(trained: bool) -> None:
    """torchtune's CEWithChunkedOutputLoss: logits of eight pieces first; gradients of a trained head add up."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    tokens, hidden, classes = 4096, 512, 8192
    with FakeTensorMode(), peak_tracker() as tracker:
        weight = torch.empty(classes, hidden, dtype=torch.bfloat16, requires_grad=trained)
        states = torch.empty(tokens, hidden, dtype=torch.bfloat16, requires_grad=True)
        pieces = [part @ weight.t() for part in (states * 1.0).chunk(8)]
        loss = sum(Compiled.apply(part) for part in pieces)
        del pieces
        loss.backward()
        peak_B = sum(tracker.get_tracker_snapshot("peak")[torch.device("cpu")].values()) / 2
    model = transformer(classes, hidden, 1, tokens)
    recipe = recipe_by(
        "hf-trainer", seq=tokens, batch=1, gradient_B=2.0, cross_entropy="pieces",
        **({} if trained else {"train": "lora:r=1,targets=q+v", "half_adapters": True}),
    )  # fmt: skip
    job, grid = Job(model, recipe, 1), Layout().grid()
    loss_B = float(activations_B(job, grid, 0, job.device_layers(1, "even", ())[0])[1])
    assert loss_B == pytest.approx(peak_B, rel=0.1)
