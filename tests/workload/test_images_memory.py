"""Peak memory of a training step of a ViT and a DiT against torch's own tracker, on tensors without storage."""

import pytest
import test_images

from lockstep.describe.hardware import cluster
from lockstep.price.layout import FRAMEWORK_B, SLACK_FRAC, Job, Layout, Recipe, memory
from peak_tracker import peak_tracker

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 2
"""The optimizer's states exist from the second step on."""
SIZES = {
    "vit": {"HIDDEN": 768, "HEADS": 12, "FFN": 3072, "LAYERS": 6, "IMAGE": 224, "PATCH": 16, "CLASSES": 1000},
    "dit": {"SMALL": 768, "HEADS": 12, "FFN": 3072, "LAYERS": 6, "FREQUENCIES": 256, "LABELS": 1001},
}
STEPS_OF = ((8, "fp32"), (64, "bf16"))


def predicted_B(model, images, dtype):
    """Memory of torch's eager kernels, everything in one format, without what is assumed."""
    each_B, optimizer = (2.0, "adamw-bf16") if dtype == "bf16" else (4.0, "adamw-no-master")
    tokens = model.patches.tokens
    recipe = Recipe.by(
        "hf-trainer", seq=tokens, batch=images, dtype=dtype, optimizer=optimizer, gradient_B=each_B, parameter_B=each_B
    )
    layout = Layout(micro_batch=images)
    found = memory(Job(model, recipe, 1), cluster("dgx-a100-80gb", gpus=1), layout.grid())
    return (float(found.total_B) - FRAMEWORK_B) / (1 + SLACK_FRAC)


def tracked_B(make, inputs, loss, dtype):
    """The most that tensors of the model, its gradients and its optimizer hold at once."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.set_default_dtype(torch.bfloat16 if dtype == "bf16" else torch.float32)
        try:
            module, given = make(), inputs()
        finally:
            torch.set_default_dtype(torch.float32)
        optimizer, tracker = torch.optim.AdamW(module.parameters(), foreach=True), peak_tracker()
        tracker.track_external(module, optimizer)
        with tracker:
            for _ in range(STEPS):
                loss(module(*given)).backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                tracker.reset_mod_stats()
        found = tracker.get_tracker_snapshot("peak")
    return float(sum(sizes["Total"] for sizes in found.values()))


def classified(out):
    """The loss of a classifier, in fp32."""
    return torch.nn.functional.cross_entropy(out.float(), torch.zeros(len(out), dtype=torch.long))


def denoised(out):
    """The loss of predicted noise, in fp32."""
    return out.float().square().mean()


@pytest.mark.parametrize(("images", "dtype"), STEPS_OF)
@pytest.mark.parametrize("kind", SIZES)
def test_peak_memory_matches_torch(monkeypatch, kind, images, dtype):
    for name, value in SIZES[kind].items():
        monkeypatch.setattr(test_images, name, value)
    side = SIZES["vit"]["IMAGE"]
    model, make, inputs, loss = {
        "vit": (test_images.vit, test_images.Vit, lambda: (torch.randn(images, 3, side, side),), classified),
        "dit": (test_images.dit, test_images.Dit, lambda: test_images.seen(images), denoised),
    }[kind]
    assert predicted_B(model(), images, dtype) == pytest.approx(tracked_B(make, inputs, loss, dtype), rel=0.03)
