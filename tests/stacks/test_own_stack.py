"""A user's own software: what its file says changes time and memory as computed by hand, and is refused at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.stacks import Stack, find_way, own_stack, stack, stacks, ways
from lockstep.price.layout import Recipe
from lockstep.show.verbs.words.stack_file import read_stack

EXAMPLE = Path(__file__).parents[2] / "examples" / "my-stack.toml"
QUESTION: dict[str, Any] = {"gpus": 1, "batch": 4, "micro_batch": 1, "seq": 8192, "tp": 1}
WAY = {"forward": ["read and written 3"], "backward": ["both gradients 6"]}


def estimate(stack: Any = "torchtitan", **words: Any) -> Any:
    return lockstep.estimate("llama3-8b", "dgx-a100-80gb:1", stack=stack, **{**QUESTION, **words})


def written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_twelve_lines_changes_time_and_memory_as_computed_by_hand() -> None:
    """Llama 3 8B on one A100, 4 micro-batches of one sequence, nothing recomputed.

    Time: the gate of torchtitan takes 3 passes forward and 5 backward over the inner width, the file's 3 and 6, each in
    as many kernels. Compiled kernels take 1.13 times as long as their bytes at 0.834 of 2,039 GB/s.
    Memory: linear layers keep the outputs of both norms and of the gate in one byte instead of two; the allocator adds
    5 % of what is used.
    """
    layers, micro_batches, tokens, hidden, inner, element_B = 32, 4, 8192, 4096, 14336, 2
    assert len(EXAMPLE.read_text("utf-8").splitlines()) == 12
    plain, own = estimate(), estimate(EXAMPLE)
    more_passes = (3 + 6) - (3 + 5)
    more_s = layers * micro_batches * more_passes * tokens * inner * element_B * 1.13 / (0.834 * 2039e9)
    assert own.step_time_s - plain.step_time_s == pytest.approx(more_s, rel=1e-9)
    assert own.step_time_s == pytest.approx(plain.step_time_s + more_s, rel=1e-12)
    less_B = layers * tokens * (hidden + hidden + inner) * (2 - 1)
    assert float(plain.memory.activations_B - own.memory.activations_B) == less_B
    assert float(plain.memory.total_B - own.memory.total_B) == pytest.approx(1.05 * less_B, rel=1e-9)


@pytest.mark.parametrize("name", stacks())
def test_a_file_that_only_inherits_equals_its_base_stack(name: str) -> None:
    own = own_stack({"like": name, "name": "mine"})
    assert Recipe.by(own, seq=8, batch=8) == Recipe.by(name, seq=8, batch=8, stack=own)
    assert (own.ways, own.habits, own.switches) == (stack(name).ways, stack(name).habits, stack(name).switches)
    assert stack(name).said == name


@pytest.mark.parametrize("name", stacks())
def test_a_written_stack_file_describes_the_stack(name: str) -> None:
    """Any stack, told as what it has otherwise than another, with ways, habits and switches of every other."""
    for other in stacks().values():
        changed = stack(name).having(**other.manner) if other.name != name else stack(name).having(gate="halves")
        if changed == stack(name):
            continue
        assert not isinstance(changed.said, str)
        assert read_stack(changed.said) == changed


def test_values_of_a_stack_file_round_trip() -> None:
    entry: dict[str, Any] = {
        "like": "megatron-te", "name": "mine", "software": "ours", "elementwise_factor": 1.5, "launch_s": 1e-5,
        "kernels": "torch", "attention": ["flash2", "cudnn@b200"], "vendors": ["AMD"], "step_s": 0, "date": "",
        "source": "measured by us", "ways": {"gate": "mine", "norm": "split"}, "habits": {"distributed_tensors": True},
        "switches": {"gradient_B": 2, "recompute_modules": ["mlp", "layernorm"], "overlap_dp": False},
        "gate": {"mine": {**WAY, "when": ["unfused"], "else": "other"}, "other": WAY},
    }  # fmt: skip
    own = read_stack(entry)
    assert (own.launch_s, own.kind, own.step_s, own.vendors) == (1e-5, "user", 0.0, ("AMD",))
    assert own.ways["gate"].otherwise is not None
    assert own.ways["gate"].otherwise.name == "other"
    assert own.switches["recompute_modules"] == ("mlp", "layernorm")
    assert own.habits.narrow_inputs == stack("megatron-te").habits.narrow_inputs
    assert read_stack(own.said) == own
    assert read_stack(own.said).said == own.said
    assert own.having(gate="other").ways["gate"].passes == (3.0, 6.0)


@pytest.mark.parametrize("slot", [slot for slot in ways() if slot not in ("loss", "scores")])
def test_a_renamed_copy_of_a_way_takes_as_long(slot: str) -> None:
    for name, one in ways()[slot].items():
        row = _row(one.to_dict())
        copied = own_stack({"like": "torchtitan", "name": "mine", "ways": {slot: "mine"}, slot: {"mine": row}})
        found = copied.ways[slot]
        assert (found.forward, found.backward, found.kernels) == (one.forward, one.backward, one.kernels)
        assert (found.slow, found.takes, found.otherwise) == (one.slow, one.takes, one.otherwise), name
        assert (found.numbers, found.saves) == (one.numbers, one.saves)
        assert {key: part.passes for key, part in found.parts.items()} == {
            key: part.passes for key, part in one.parts.items()
        }


def _row(way: dict[str, Any]) -> dict[str, Any]:
    """The row of the table that says what a way in plain form is."""
    parts = {key: _row(part) for key, part in way["parts"].items()}
    other = ("way", "passes", "parts", "numbers")
    return {key: value for key, value in way.items() if key not in other and value} | way["numbers"] | parts


def lora(stack: Any, **words: Any) -> Any:
    return estimate(stack, train="lora:r=8,targets=q_proj,dropout=0.1", overlap_tp="none", **words)


def test_a_custom_adapter_way_takes_the_time_computed_by_hand() -> None:
    """Adapters on 32 matrices of 4,096 x 4,096 numbers: what surrounds them over outputs, inputs and dropout, forward
    and backward, in kernels as fast as the memory, 0.834 of 2,039 GB/s.
    """
    ways_of = {name: {"rate": "bytes", "forward": ["a 0"], "kernels": [1, 1]} for name in ("free", "costly")}
    ways_of["free"]["dropout"] = ways_of["free"]["inputs"] = {"kernels": [0, 0]}
    ways_of["costly"] |= {"forward": ["a 2"], "backward": ["b 1"]}
    ways_of["costly"]["inputs"] = {"rate": "bytes", "forward": ["c 3"], "kernels": [0, 0]}
    ways_of["costly"]["dropout"] = {"rate": "bytes", "backward": ["d 4 x1"], "takes": [1, 2], "kernels": [0, 0]}
    free, costly = (lora({"like": "torchtitan", "ways": {"adapters": name}, "adapters": ways_of}) for name in ways_of)
    more_s = 32 * 4 * (2 + 1 + 3 + 2 * 4) * 8192 * 4096 * 2 / (0.834 * 2039e9)
    assert costly.step_time_s - free.step_time_s == pytest.approx(more_s, rel=1e-9)
    assert costly.memory.to_dict() == free.memory.to_dict()


def test_custom_adapters_that_recompute_keep_the_input_of_the_matrix() -> None:
    """PEFT's do not: of an adapter on queries the input of the attention's products, 32 layers of 8,192 x 4,096."""
    row = {"forward": ["added 3"]}
    own: Any = {"like": "hf-trainer", "ways": {"adapters": "mine"}, "adapters": {"mine": row}}
    plain, again = lora(own), lora({**own, "adapters": {"mine": {**row, "again": 1}}})
    assert float(again.memory.activations_B - plain.memory.activations_B) == 32 * 8192 * 4096 * 2
    assert again.step_time_s > plain.step_time_s


def test_a_custom_way_may_define_its_fp32_steps() -> None:
    found = own_stack({"like": "hf-trainer-5", "gate": {"mine": {**WAY, "widened": {"forward": ["ours 7"]}}}})
    assert found.having(gate="mine").ways["gate"].parts["widened"].passes == (7.0, 0.0)
    with pytest.raises(UnknownName, match="widened"):
        own_stack({"like": "hf-trainer-5", "bias": {"mine": {**WAY, "widened": WAY}}})


def test_a_custom_way_keeps_the_default_tensors_unless_stated() -> None:
    for slot in ("activation", "norm"):
        own: Any = {"like": "torchtitan", "ways": {slot: "mine"}, slot: {"mine": WAY}}
        plain = lockstep.memory("gpt2", "dgx-a100-80gb:1", stack="torchtitan", **{**QUESTION, "seq": 1024})
        found = lockstep.memory("gpt2", "dgx-a100-80gb:1", stack=own, **{**QUESTION, "seq": 1024})
        assert found.to_dict()["stages"] == plain.to_dict()["stages"]


@pytest.mark.parametrize(
    ("slot", "saves", "more_B", "again_B"),
    [
        ("gate", ["what its function gives 1"], 14336 * 2, 0),
        ("gate", ["its inputs joined 2", "a mask 1 byte"], 14336 * 5, 0),
        ("norm", ["its input in fp32, beyond the stream's own 1 wider"], 2 * 4096 * 2, 2 * 4096 * 2),
        ("norm_weight", ["normed values 1 fp32"], 2 * 4096 * 4, 2 * 4096 * 4),
        ("rotary", ["its input 1"], (4096 + 1024) * 2, (4096 + 1024) * 2),
        ("residual", ["masks 0.5 byte"], 2 * 4096 * 0.5, 2 * 4096 * 0.5),
    ],
    ids=lambda one: "+".join(one) if isinstance(one, list) else None,
)
def test_saved_tensors_of_a_way_are_kept_until_its_operation_is_recomputed(
    slot: str, saves: list[str], more_B: float, again_B: float
) -> None:
    """Llama 3 8B: 32 layers of 8,192 tokens; with and without feed-forward blocks that run again."""
    row = {**WAY, "saves": saves}
    own: Any = {"like": "torchtitan", "ways": {slot: "mine"}, slot: {"mine": row}}
    for words, each_B in (({}, more_B), ({"recompute": "selective", "recompute_modules": "mlp"}, again_B)):
        plain, found = estimate(**words), estimate(own, **words)
        kept_B = float(found.memory.activations_B - plain.memory.activations_B)
        assert kept_B == pytest.approx(32 * 8192 * each_B, rel=1e-12)


GOOD = """like = "torchtitan"
launch_s = 2e-5
[ways]
gate = "mine"
[habits]
distributed_tensors = false
[switches]
overlap_tp = "none"
[gate.mine]
forward = ["3 3"]
"""
WRONG = [
    ('like = "torchtitan"', 'like = "torchtitn"', 1, "did you mean torchtitan"),
    ('like = "torchtitan"', "# none", 0, "like is missing"),
    ('like = "torchtitan"', "like = 3", 1, "unknown software stack"),
    ("launch_s = 2e-5", "lunch_s = 2e-5", 2, "did you mean launch_s"),
    ("launch_s = 2e-5", 'launch_s = "20us"', 2, "launch_s must be a number from 0 to 1"),
    ("launch_s = 2e-5", "launch_s = true", 2, "launch_s must be a number from 0 to 1"),
    ("launch_s = 2e-5", "launch_s = 2.0", 2, "launch_s must be a number from 0 to 1"),
    ("launch_s = 2e-5", "launch_s = nan", 0, "not a finite number"),
    ("launch_s = 2e-5", "elementwise_factor = 0", 2, "from 0.1 to 100"),
    ("launch_s = 2e-5", 'kernels = "induktor"', 2, "did you mean inductor"),
    ("launch_s = 2e-5", 'attention = ["flash4"]', 2, "flash"),
    ("launch_s = 2e-5", 'attention = ["cudnn@h1000"]', 2, "cudnn@"),
    ("launch_s = 2e-5", 'attention = "flash2"', 2, "must be a list"),
    ("launch_s = 2e-5", 'vendors = ["Nvidia"]', 2, "NVIDIA"),
    ("launch_s = 2e-5", "source = 3", 2, "source must be text"),
    ("launch_s = 2e-5", 'name = ""', 2, "name must not be empty"),
    ("launch_s = 2e-5", 'name = "nemo-25"', 2, "is a stack of the catalog"),
    ("launch_s = 2e-5", 'norm = "one"', 2, 'write norm = "one" below [ways]'),
    ("launch_s = 2e-5", "norm = 3", 2, "norm must be a table"),
    ("launch_s = 2e-5", "launch_s = 2e-5\nlaunch_s = 1e-5", 3, "not valid TOML"),
    ('gate = "mine"', 'gates = "mine"', 4, "did you mean gate"),
    ('gate = "mine"', 'gate = "mien"', 4, "did you mean mine"),
    ('gate = "mine"', "gate = 3", 4, "way to run gate"),
    ('gate = "mine"', 'loss = "eagr"', 4, "did you mean eager"),
    ('gate = "mine"', 'scores = "causal"', 4, "kernel, written"),
    ("distributed_tensors = false", "distributed_tensor = false", 6, "did you mean distributed_tensors"),
    ("distributed_tensors = false", "working_copy = 1", 6, "must be true or false"),
    ('overlap_tp = "none"', 'overlap_tpp = "none"', 8, "did you mean overlap_tp"),
    ('overlap_tp = "none"', 'overlap_tp = "non"', 8, "did you mean none"),
    ('overlap_tp = "none"', "overlap_tp = 3", 8, "expected text"),
    ('overlap_tp = "none"', 'overlap_dp = "no"', 8, "expected True or False"),
    ('overlap_tp = "none"', "gradient_B = 3", 8, "4 bytes"),
    ("[gate.mine]", "[gate.one]", 9, "a way of the catalog"),
    ("[gate.mine]", "[gates.mine]", 9, "did you mean gate"),
    ("[gate.mine]", "[scores.mine]", 9, "unknown key of a stack"),
    ("[gate.mine]", "[loss.mine]", 9, "unknown key of a stack"),
    ('forward = ["3 3"]', 'forwrd = ["3 3"]', 10, "did you mean forward"),
    ('forward = ["3 3"]', 'forward = ["3"]', 10, "is not a step"),
    ('forward = ["3 3"]', 'forward = ["3 2*3"]', 10, "is not a step"),
    ('forward = ["3 3"]', 'forward = ["3 3 x1001"]', 10, "is not a step"),
    ('forward = ["3 3"]', 'forward = "3 3"', 10, "must be a list"),
    ('forward = ["3 3"]', "keeps = 2", 10, "key of the way gate.mine"),
    ('forward = ["3 3"]', '[gate.mine.keys]\nforward = ["3 3"]', 10, "key of the way gate.mine"),
    ('forward = ["3 3"]', '[heads.mine.keys.keys]\nforward = ["3 3"]', 10, "key of the way heads.mine.keys"),
    ('forward = ["3 3"]', "[heads.mine.keys]\nidles = 2", 11, "key of the way heads.mine.keys"),
    ('forward = ["3 3"]', "again = 1", 10, "key of the way gate.mine"),
    ('forward = ["3 3"]', "[gate.mine.inputs]", 10, "key of the way gate.mine"),
    ('forward = ["3 3"]', "[adapters.mine.input]", 10, "did you mean inputs"),
    ('forward = ["3 3"]', "[adapters.mine]\nagain = true", 11, "again must be a number"),
    ('forward = ["3 3"]', "[adapters.mine.inputs]\nagain = 1", 11, "key of the way adapters.mine.inputs"),
    ('forward = ["3 3"]', "[adapters.mine.dropout]\ntakes = [1]", 11, "two numbers"),
    ('forward = ["3 3"]', "[adapters.fp32]", 10, "a way of the catalog"),
    ('forward = ["3 3"]', "[experts.mine.each]", 10, "key of the way experts.mine"),
    ('forward = ["3 3"]', '[experts.mine.biases]\nforward = ["3"]', 11, "is not a step"),
    ('forward = ["3 3"]', "[expert_padding.mine]\napart = 1", 11, "key of the way expert_padding.mine"),
    ("distributed_tensors = false", "fused_adapters = true", 6, "habit of a software"),
    ("distributed_tensors = false", "grouped_experts = false", 6, "habit of a software"),
    ('forward = ["3 3"]', 'saves = ["3"]', 10, "is not a tensor"),
    ('forward = ["3 3"]', 'saves = ["mask 1 bytes"]', 10, "is not a tensor"),
    ('forward = ["3 3"]', '[bias.mine]\nsaves = ["mask 1 byte"]', 11, "key of the way bias.mine"),
    ('forward = ["3 3"]', "kernels = [1, -1]", 10, "two numbers"),
    ('forward = ["3 3"]', "kernels = [1, true]", 10, "two numbers"),
    ('forward = ["3 3"]', "kernels = [1, inf]", 10, "two numbers"),
    ('forward = ["3 3"]', "source = [1]", 10, "must be text"),
    ('forward = ["3 3"]', 'rate = "loss "', 10, "did you mean loss"),
    ('forward = ["3 3"]', 'when = ["rmsnorm"]\nelse = "ones"', 11, "did you mean one"),
    ('forward = ["3 3"]', 'when = [["rmsnorm"]]\nelse = "one"', 10, "trait"),
    ('forward = ["3 3"]', 'when = ["rmsnorm"]\nelse = "mine"', 9, "refer to one another"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "line", "said"), WRONG, ids=[after for _, after, _, _ in WRONG])
def test_errors_in_a_stack_file_are_refused_at_their_line(
    before: str, after: str, line: int, said: str, tmp_path: Path
) -> None:
    assert isinstance(read_stack(written(tmp_path, GOOD)), Stack)
    path = written(tmp_path, GOOD.replace(before, after, 1))
    with pytest.raises(BadInput) as caught:
        read_stack(path)
    assert caught.value.where == (f"{path}:{line}" if line else str(path))
    assert said in str(caught.value)


def test_a_file_with_two_definitions_of_the_loss_is_refused(tmp_path: Path) -> None:
    """By the way of its slot and by the switch, alike or not; the second is what the option --cross-entropy sets."""
    ways_too = GOOD.replace('gate = "mine"', 'gate = "mine"\nloss = "half"')
    assert read_stack(written(tmp_path, ways_too)).options.cross_entropy == "half"
    for word in ("half", "eager"):
        path = written(tmp_path, ways_too.replace('overlap_tp = "none"', f'cross_entropy = "{word}"'))
        with pytest.raises(BadInput, match="keep one") as caught:
            read_stack(path)
        assert caught.value.where == f"{path}:5"


def test_a_file_that_is_too_large_or_deep_is_refused(tmp_path: Path) -> None:
    large = written(tmp_path, GOOD + "#" * 2**18)
    with pytest.raises(BadInput, match="larger than"):
        read_stack(large)
    many = "".join(f'[gate.w{number}]\nforward = ["a 1"]\n' for number in range(101))
    with pytest.raises(BadInput, match="more than the 100 ways"):
        read_stack(written(tmp_path, 'like = "torchtitan"\n' + many))
    with pytest.raises(BadInput, match="nested deeper"):
        read_stack(written(tmp_path, "like = " + "[" * 40))
    with pytest.raises(BadInput, match="nested deeper"):
        read_stack(written(tmp_path, "like = 1\n[" + ".".join("a" * 5000) + "]"))
    with pytest.raises(BadInput, match="there is no such file"):
        read_stack("missing.toml")
    with pytest.raises(BadInput, match="a folder"):
        read_stack(tmp_path)


def test_a_stack_is_named_after_its_file_unless_it_sets_a_name(tmp_path: Path) -> None:
    assert read_stack(written(tmp_path, GOOD)).name == "mine"
    assert read_stack(written(tmp_path, GOOD)).source == "a file of one's own"
    assert read_stack(written(tmp_path, 'name = "ours"\n' + GOOD)).name == "ours"
    with pytest.raises(BadInput, match="is a stack of the catalog"):
        read_stack(written(tmp_path, GOOD, "nemo-25.toml"))


def test_a_catalog_name_takes_precedence_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD, "torchtitan")
    monkeypatch.chdir(tmp_path)
    assert read_stack("torchtitan") is stack("torchtitan")


def test_a_custom_way_does_not_change_the_catalog() -> None:
    own_stack({"like": "torchtitan", "ways": {"gate": "mine"}, "gate": {"mine": WAY}})
    assert "mine" not in ways()["gate"]
    assert stack("torchtitan").ways["gate"] is find_way("gate", "apart")


def test_a_stack_has_its_own_passes_and_recomputation() -> None:
    """A user's trainer that computes log-probabilities once more, without a reference, and recomputes layers."""
    mine = own_stack({"like": "trl", "recompute": "selective", "train": {"grpo": "old=always,beta=0"}})
    assert Recipe.by(mine, seq=64, batch=4, train="grpo").objective.forwards == 2
    assert Recipe.by("trl", seq=64, batch=4, train="grpo").objective.forwards == 1
    assert mine.said == {"like": "trl", "recompute": "selective", "train": {"grpo": "old=always,beta=0"}}
    words = {"stack": "trl", "micro_batch": 1, "batch": 4, "seq": 512, "gpus": 1}
    for given, expected in (({}, "full"), ({"recompute": "none"}, "none"), ({"stack": "hf-trainer-5"}, "none")):
        assert lockstep.memory("llama3.2-1b", "dgx-h100:1", **{**words, **given}).layout.recompute == expected


@pytest.mark.parametrize(
    "text",
    [
        'like = "trl"\nrecompute = "some"',
        'like = "trl"\n[train]\ngrpo = "old=now"',
        'like = "trl"\n[train]\ngrpoo = "beta=0"',
        'like = "trl"\n[train]\ngrpo = 1',
    ],
)
def test_wrong_settings_of_training_are_refused_at_their_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput) as error:
        read_stack(written(tmp_path, text))
    assert f":{len(text.splitlines())}" in str(error.value)
