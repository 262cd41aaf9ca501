"""Two kept runs of small networks: where they part, and by what, for what was switched between them."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.run.partings import Record, compare, read_record

torch = pytest.importorskip("torch", reason="needs torch")
STEPS, SAMPLES, BATCH, WIDTH, PARTS = 6, 48, 8, 16, 4


@dataclass(frozen=True)
class Run:
    """What a run is made of; one of these is switched."""

    seed: int = 0
    data_seed: int = 0
    dropout_seed: int = 0
    reversed: bool = False
    """Whether parts of a batch are added from the last one."""
    dtype: torch.dtype = torch.float32
    optimizer: Callable[..., torch.optim.Optimizer] = field(default=torch.optim.SGD)
    rate: float = 0.05


def trained(run: Run) -> list[dict[str, torch.Tensor]]:
    """Of every step what it read, its loss, and the weights after it; first those before."""
    torch.manual_seed(run.seed)
    layers = (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1))
    model = torch.nn.Sequential(*layers).to(run.dtype)
    x = torch.randn(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(99)).to(run.dtype)
    y = x.square().sum(1, keepdim=True).sin()
    optimizer = run.optimizer(model.parameters(), lr=run.rate)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(run.data_seed))
    torch.manual_seed(run.dropout_seed)
    kept = [{name: one.detach().clone() for name, one in model.named_parameters()}]
    for step in range(STEPS):
        indices = order[step * BATCH : (step + 1) * BATCH]
        losses = [(model(x[part]) - y[part]).square().mean() / PARTS for part in indices.chunk(PARTS)]
        gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
        for parts in (gradients[::-1],) if run.reversed else (gradients,):
            for place, one in enumerate(model.parameters()):
                total = parts[0][place].clone()
                for part in parts[1:]:
                    total += part[place]
                one.grad = total
        loss = sum(one.detach() for one in losses)
        optimizer.step()
        weights = {name: one.detach().clone() for name, one in model.named_parameters()}
        kept.append({"data": indices.clone(), "lr": torch.tensor(run.rate), "loss": loss, **weights})
    return kept


SWITCHES: dict[str, tuple[Run, int, str]] = {
    "nothing": (Run(), 0, "none"),
    "seed": (Run(seed=1), 0, "seed"),
    "data order": (Run(data_seed=1), 1, "data-order"),
    "dropout": (Run(dropout_seed=1), 1, "dropout"),
    "order of additions": (Run(reversed=True), 1, "summation"),
    "number format": (Run(dtype=torch.float64), 0, "dtype"),
    "learning rate": (Run(rate=0.06), 1, "setting"),
}
"""The other run, the first step that differs, and the cause."""


def as_folder(kept: list[dict[str, torch.Tensor]], folder: Path, ending: str) -> Path:
    """One file of states for each step."""
    folder.mkdir()
    for step, one in enumerate(kept):
        arrays = {name: tensor.numpy() for name, tensor in one.items()}
        if ending == ".npz":
            np.savez(folder / f"step_{step}.npz", **arrays)
        elif ending == ".pt":
            torch.save({"model": one}, folder / f"step_{step}.pt")
        else:
            (folder / f"checkpoint-{step}").mkdir()
            (folder / f"checkpoint-{step}" / "model.safetensors").write_bytes(safetensors(arrays))
    return folder


def safetensors(arrays: dict[str, np.ndarray]) -> bytes:
    names = {"<f4": "F32", "<f8": "F64", "<i8": "I64"}
    head, body = {}, b""
    for name, one in arrays.items():
        place = [len(body), len(body) + one.nbytes]
        head[name] = {"dtype": names[one.dtype.str], "shape": list(one.shape), "data_offsets": place}
        body += one.tobytes()
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + body


def as_record(kept: list[dict[str, torch.Tensor]], *without: str) -> Record:
    steps = {
        step: {name: one.numpy() for name, one in each.items() if name not in without} for step, each in enumerate(kept)
    }
    return Record("run", steps)


@pytest.fixture(scope="module")
def first() -> list[dict[str, torch.Tensor]]:
    return trained(Run())


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".pt"])
def test_what_was_switched_is_named(
    first: list[dict[str, torch.Tensor]], name: str, ending: str, tmp_path: Path
) -> None:
    run, step, cause = SWITCHES[name]
    one = read_record(as_folder(first, tmp_path / "one", ending))
    other = read_record(as_folder(trained(run), tmp_path / "other", ending))
    found = compare(one, other)
    assert found.cause == cause
    assert found.step == (None if cause == "none" else step)
    assert found.identical == (cause == "none")


@pytest.mark.parametrize(
    ("optimizer", "rate", "seeds"),
    [(torch.optim.SGD, 0.05, (1, 2)), (torch.optim.SGD, 0.01, (3,)), (torch.optim.Adam, 0.05, (1, 2)),
     (torch.optim.Adam, 1e-3, (3, 4))],
)  # fmt: skip
def test_rounding_is_told_from_other_samples_by_weights_alone(
    optimizer: Callable[..., torch.optim.Optimizer], rate: float, seeds: tuple[int, ...]
) -> None:
    """Without losses and data, also with Adam, which makes a step of its own size of the smallest gradient."""
    base = Run(optimizer=optimizer, rate=rate)
    one = as_record(trained(base), "data", "lr", "loss")
    assert compare(one, as_record(trained(replace(base, reversed=True)), "data", "lr", "loss")).cause == "summation"
    for seed in seeds:
        for other in (replace(base, data_seed=seed), replace(base, dropout_seed=seed)):
            assert compare(one, as_record(trained(other), "data", "lr", "loss")).cause == "draws"


@pytest.mark.parametrize("seed", [1, 2])
def test_small_updates_by_other_samples_are_no_rounding(seed: int) -> None:
    """At a rate of 1e-4 they are 2e-5 of the weights."""
    base = Run(rate=1e-4)
    for other in (replace(base, data_seed=seed), replace(base, dropout_seed=seed)):
        runs = [as_record(trained(one), "data", "lr", "loss") for one in (base, other)]
        assert compare(*runs).cause == "draws"


def test_weights_of_16_bits_are_rounded_by_their_own_digits() -> None:
    """Half of a weight's entries move by a unit of the last place, which is as large as an update."""
    rng = np.random.default_rng(0)
    start = torch.tensor(rng.standard_normal(400)).bfloat16()
    update = torch.tensor(0.004 * rng.standard_normal(400)).bfloat16()
    one = (start + update).float().numpy()
    other = one.copy()
    other.view(np.uint32)[::4] += 1 << 16
    before = start.float().numpy()
    runs = [Record("run", {0: {"w": before}, 1: {"w": after}}) for after in (one, other)]
    assert compare(*runs).cause == "summation"


@pytest.mark.parametrize(("name", "cause"), [("data order", "data"), ("dropout", "model-seed"), ("seed", "model-seed")])
def test_tables_of_losses_name_what_their_columns_can_tell(
    first: list[dict[str, torch.Tensor]], name: str, cause: str, tmp_path: Path
) -> None:
    """With digests of batches; without them other samples look like other draws."""
    runs = {"one": first, "other": trained(SWITCHES[name][0])}
    for file, kept in runs.items():
        with (tmp_path / f"{file}.csv").open("w", newline="") as opened:
            table = csv.writer(opened)
            table.writerow(["step", "data", "loss", "step_time_s"])
            for step, one in enumerate(kept[1:], 1):
                table.writerow([step, one["data"].numpy().tobytes().hex(), float(one["loss"]), np.random.rand()])
        lines = [f'{{"step": {step}, "loss": {float(one["loss"])}}}' for step, one in enumerate(kept[1:], 1)]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(lines))
    by_table = compare(read_record(tmp_path / "one.csv"), read_record(tmp_path / "other.csv"))
    assert by_table.cause == cause
    assert compare(read_record(tmp_path / "one.jsonl"), read_record(tmp_path / "other.jsonl")).cause == "draws"


LOGS = {
    "megatron": " iteration {step:8}/ 500000 | consumed samples: 10240 | elapsed time per iteration (ms): {time} | "
    "learning rate: 1.0E-04 | lm loss: {loss:.6E} | grad norm: 1.234 |",
    "nanogpt": "iter {step}: loss {loss:.4f}, time {time}ms, mfu 30.12%",
    "torchtitan": "\x1b[31mstep: {step:2}  \x1b[32mloss: {loss:7.4f}  \x1b[33mmemory: {time}GiB(33%)  tps: {time}",
    "olmo-core": "INFO [step={step}/1000,epoch=1]\n    throughput/device/TPS={time}\n    train/CE loss={loss:.4f}",
    "trainer": "{{'loss': {loss:.5f}, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.0{step}}}",
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize(("apart", "cause"), [(0.0, "none"), (3e-4, "summation"), (0.3, "draws")])
def test_logs_part_where_a_loss_differs_and_never_by_their_times(
    name: str, apart: float, cause: str, tmp_path: Path
) -> None:
    """3e-4 is 3 in the last digit of a log with four places, and larger than rounding where there are more."""
    for file, extra in (("one.log", 0.0), ("other.log", apart)):
        losses = [9 - 0.5 * step + extra * (step >= 3) for step in range(1, 6)]
        said = [
            LOGS[name].format(step=step, loss=loss, time=f"{100 + step + extra:.2f}")
            for step, loss in enumerate(losses, 1)
        ]
        (tmp_path / file).write_text("[INFO] hello\n" + "\n".join(said))
    found = compare(read_record(tmp_path / "one.log"), read_record(tmp_path / "other.log"))
    first = 2 if name == "trainer" else 3
    assert found.step == (None if cause == "none" else first)
    if cause != "none":
        assert "loss" in found.differences[0].name
    assert found.cause == ("unclear" if cause == "summation" and name in ("megatron", "trainer") else cause)


def test_bf16_files_are_read_and_compared_by_their_bits(tmp_path: Path) -> None:
    weights = torch.randn(5).bfloat16()
    head = json.dumps({"w": {"dtype": "BF16", "shape": [5], "data_offsets": [0, 10]}}).encode()
    data = len(head).to_bytes(8, "little") + head + weights.view(torch.int16).numpy().tobytes()
    (tmp_path / "step_3.safetensors").write_bytes(data)
    torch.save({"w": weights}, tmp_path / "step_3.pt")
    one, other = read_record(tmp_path / "step_3.safetensors"), read_record(tmp_path / "step_3.pt")
    assert list(one.steps) == [3]
    assert compare(one, other).identical


ODD: dict[str, bytes] = {
    "words.log": b"nothing here", "words.csv": b"step,loss\nabc,1\n", "endless.csv": b"step,loss\nnan,1\ninf,2\n",
    "wide.csv": b'step,a\n1,"' + b"x" * 200_000 + b'"\n', "empty.csv": b"", "bytes.log": b"\xff",
    "open.jsonl": b"{", "deep.jsonl": b"[" * 5000 + b"]" * 5000, "null.jsonl": b'{"step": null, "loss": 1}',
    "far.log": b"step 1e400 loss: 3\nstep , loss 2", "a.npz": b"no zip", "b.npz": b"PK\x03\x04 no more",
    "a.safetensors": b"\xff" * 20, "list.safetensors": (8).to_bytes(8, "little") + b"[1,2,3] ",
    "number.safetensors": (8).to_bytes(8, "little") + b'{"a": 5}', "text.pt": b"hello",
    "run.pt": pickle.dumps(Path), "old.pt": b"\x80\x04\x95",
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_files_that_are_no_record_are_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(ODD[name])
    with pytest.raises(BadInput) as refused:
        read_record(tmp_path / name)
    assert name in str(refused.value.where)


def test_what_is_no_number_is_not_compared(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", words=np.array(["x"]), ones=np.ones(2), pairs=np.array([1j]))
    assert set(read_record(tmp_path / "a.npz").steps[0]) == {"ones"}
    np.savez(tmp_path / "objects.npz", a=np.array([{}, 1], dtype=object))
    with pytest.raises(BadInput, match="not a file of tensors"):
        read_record(tmp_path / "objects.npz")


def test_records_without_a_common_step_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="has no files that end in"):
        read_record(tmp_path / "empty")
    with pytest.raises(BadInput, match="no step"):
        compare(Record("a", {1: {"loss": np.asarray(1.0)}}), Record("b", {2: {"loss": np.asarray(1.0)}}))


def test_the_verb_says_where_two_runs_part_and_why(first: list[dict[str, torch.Tensor]], tmp_path: Path) -> None:
    one = as_folder(first, tmp_path / "one", ".npz")
    other = as_folder(trained(SWITCHES["order of additions"][0]), tmp_path / "other", ".npz")
    said = run("reproduce", str(one), str(other))
    assert said.code == 1
    assert said.out.startswith("The runs part at step 1, in ")
    assert "the order of summation" in said.out
    same = run("reproduce", str(one), str(one), "--plot", str(tmp_path / "same.svg"))
    assert (same.code, (tmp_path / "same.svg").stat().st_size > 0) == (0, True)
    assert same.out.startswith("Both runs are the same, to the bit")
    found = lockstep.reproduce(one, other).to_dict()
    assert found["cause"] == "summation"
    assert [each["step"] for each in found["apart"]] == list(range(1, STEPS + 1))
    assert run("reproduce", str(one), str(other), "--plot", str(tmp_path / "apart.svg")).code == 1


def test_one_kept_run_asks_for_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("step,loss\n1,2.0\n")
    assert "give the other run as well" in run("reproduce", str(tmp_path / "a.csv")).refusal()


@pytest.mark.parametrize("option", [("--ranks", "2"), ("--switch", "dtype"), ("--set", "a=1"), ("--seed", "3")])
def test_options_of_training_are_refused_for_kept_runs(option: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("step,loss\n1,2.0\n")
    said = run("reproduce", str(tmp_path / "a.csv"), str(tmp_path / "a.csv"), *option).refusal()
    assert "has no effect on two runs that were kept" in said
    assert option[0] in said
