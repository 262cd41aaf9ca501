"""Options of shell scripts and command lines are read as a shell and its launchers read them, with bounded work."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.script import commands
from lockstep.decide.planner.imports.text import Text, Unset


def only(text: str) -> Text:
    """The one command with options in a text."""
    (found,) = commands(text, "run.sh")
    return found


SCRIPT = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
mkdir -p /data
export SIZE=${SIZE:-70B}; GBS=$((SLURM_NNODES * 64 - 2**3))
if [ $SIZE = 70B ]; then
    TP=8
else
    TP=1
fi
case $SIZE in
    7B) LAYERS=32 ;;
    13B|70B) LAYERS=80 ;;
    *) LAYERS=1 ;;
esac
[ "$TP" -gt 4 ] && SP="--sequence-parallel"
MODEL=(
    --num-layers $LAYERS   # all of them
    #--hidden-size 4096
    --hidden-size 8192 "--pattern" '([0]*3+[1]*58)'
)
MODEL+=(--map '{"a":[1,2]}')
TRAIN="--batch $GBS --ramp 16 16 1000 \\
    --dropout=0.1
    --rate -1e-4"
TRAIN="$TRAIN --last"
srun -N 4 torchrun --nproc_per_node 8 --nnodes=$SLURM_NNODES pretrain_gpt.py \\
    ${MODEL[@]} $TRAIN $SP "$@" --tp ${TP} 2>&1 | tee /data/log --append
"""


def test_variables_arrays_sums_branches_and_launchers_are_read_as_a_shell_does() -> None:
    found = commands(SCRIPT, "run.sh")[-1]
    assert found.words == {
        "launcher.name": "torchrun", "launcher.nodes": "4", "launcher.nproc_per_node": "8", "launcher.nnodes": "4",
        "launcher.program": "pretrain_gpt.py", "num-layers": "80", "hidden-size": "8192",
        "pattern": "([0]*3+[1]*58)", "map": '{"a":[1,2]}', "batch": "248", "ramp": ["16", "16", "1000"],
        "dropout": "0.1", "rate": "-1e-4", "last": True, "sequence-parallel": True, "tp": "8",
    }  # fmt: skip
    lines = SCRIPT.splitlines()
    for word in ("num-layers", "hidden-size", "map", "batch", "dropout", "rate", "last", "tp"):
        assert f"--{word}" in lines[found.lines[word] - 1]
    assert not found.repeated
    assert not found.branched


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_shell_words_match_bash() -> None:
    """The shell itself as the oracle: a program that prints its arguments stands where the run would."""
    shown = SCRIPT.replace("srun -N 4 torchrun", "printf '%s\\n' torchrun").replace(" | tee /data/log --append", "")
    shown = shown.replace("mkdir -p /data", "SLURM_NNODES=4")
    done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    said = done.stdout.split("\n")
    words: list[str] = []
    for name, value in commands(SCRIPT, "run.sh")[-1].words.items():
        if not name.startswith("launcher."):
            words += [f"--{name}", *([] if value is True else value if isinstance(value, list) else [str(value)])]
    printed = [part for one in said[said.index("pretrain_gpt.py") + 1 :] for part in one.split("=", 1) if part]
    assert words == printed


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("torchrun --standalone --nproc-per-node=gpu train.py", {"name": "torchrun", "nproc_per_node": "gpu"}),
        ("python -m torch.distributed.run --nnodes 2 train.py", {"name": "torchrun", "nnodes": "2"}),
        ("python3 -u -m torch.distributed.launch --use_env train.py", {"name": "torchrun", "use_env": "true"}),
        ("accelerate launch --num_processes 8 -m pack.train", {"num_processes": "8", "program": "pack.train"}),
        ("accelerate launch --multi_gpu --config_file a.yaml train.py", {"multi_gpu": "true", "config_file": "a.yaml"}),
        ("A=1 deepspeed --num_gpus 8 --hostfile h train.py", {"name": "deepspeed", "num_gpus": "8"}),
        ("srun -N 2 --ntasks-per-node=8 -l python train.py", {"nodes": "2", "ntasks_per_node": "8"}),
        ("mpirun -np 16 -x PATH --allow-run-as-root python train.py", {"ntasks": "16"}),
        ("NPROC=8 swift sft", {"program": "swift", "subcommand": "sft"}),
        ("megatron sft", {"program": "megatron", "subcommand": "sft"}),
        (
            "llamafactory-cli train a.yaml",
            {"program": "llamafactory-cli", "subcommand": "train", "arguments": ["a.yaml"]},
        ),
        ("trl sft", {"program": "trl", "subcommand": "sft"}),
        (
            "tune run --nproc_per_node 4 full_finetune",
            {"name": "tune", "nproc_per_node": "4", "program": "full_finetune"},
        ),
        ("numactl --interleave=all python train.py", {"program": "train.py"}),
        ('docker run --gpus all image bash -c "torchrun train.py --x 1" #', {"name": "torchrun"}),
        ("eval torchrun train.py", {"name": "torchrun", "program": "train.py"}),
    ],
)
def test_launchers_are_separated_from_training_options(start: str, words: dict[str, str]) -> None:
    found = only(f"{start} --x 1")
    said = {word.removeprefix("launcher."): value for word, value in found.words.items() if word != "x"}
    assert found.words["x"] == "1"
    assert said.items() >= {"program": "train.py", **words}.items()


FORMS = """set -euo pipefail
usage() { echo "--tp N"; exit 1; }
TP=2; MLA=${MLA:-0}
while [[ $# -gt 0 ]]; do
  case "$1" in
    --tp) TP="$2"; shift 2 ;;
    *) echo "bad $1"; exit 1 ;;
  esac
done
cat > ds.json <<JSON
{"size": 64, "--foo": 'x}
JSON
if [ -z ${VP} ]; then vp=""; else vp=" --chunks ${VP}"; fi
ARGS=( --layers 8
   --seq 1024 )
if (( MLA )); then ARGS+=( --latent ); fi
if (( TP >= 2 )); then ARGS+=( --wide ); fi
: ${MBS:=3}
run="torchrun --nproc_per_node $(nvidia-smi -L | wc -l) train.py ${ARGS[@]} ${vp} \\
 --micro ${MBS} --freq '([0]*3+[1]*5)' --tp ${TP}"
echo ${run}
eval ${run}
"""


def test_forms_of_real_scripts_are_read() -> None:
    """Loops over arguments, documents within the script, `:=`, arithmetic conditions, and a run that is a text."""
    (found,) = commands(FORMS, "run.sh")
    said = {word: value for word, value in found.words.items() if not word.startswith("launcher.")}
    assert said == {"layers": "8", "seq": "1024", "wide": True, "micro": "3", "freq": "([0]*3+[1]*5)", "tp": "2"}
    assert not found.branched


def test_srun_without_options_has_those_of_the_batch_script() -> None:
    head = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n"
    words = only(f"{head}srun python train.py --x 1").words
    assert (words["launcher.nodes"], words["launcher.ntasks_per_node"]) == ("4", "8")


def test_pasted_options_and_overrides_are_parsed() -> None:
    assert only("--a 1 --b\n  --c x y # more\n\n--d=2\n").words == {"a": "1", "b": True, "c": ["x", "y"], "d": "2"}
    found = only("python train.py --config-name big model.hidden=4096 +optim.lr=1e-4 ++a=b").words
    assert found == {
        "launcher.program": "train.py", "config-name": "big", "model.hidden": "4096", "optim.lr": "1e-4", "a": "b"
    }  # fmt: skip
    assert only('export OPTS="--a 1 \\\n --b 2"\n').words == {"a": "1", "b": "2"}


def test_repeated_and_conditional_options_are_marked() -> None:
    twice = only("train --tp 4 --pp 2 --tp 8 --pp 2")
    assert (twice.words["tp"], twice.repeated) == ("8", {"tp": "4"})
    branch = only("TP=2\nif [ $1 = big ]; then TP=8; OPTS+='--sp'; fi\ntrain --tp $TP $OPTS")
    assert (branch.words["tp"], branch.words["sp"], branch.branched) == ("8", True, {"tp": "2", "sp": ""})


def test_an_unset_variable_has_no_value() -> None:
    found = only("train --tp $TP --bf16 $MODEL_ARGS --pp ${PP:-2}")
    assert found.words == {
        "launcher.program": "train", "tp": "$TP", "bf16": True, "$MODEL_ARGS": "$MODEL_ARGS", "pp": "2"
    }  # fmt: skip
    assert isinstance(found.words["tp"], Unset)


HOSTILE = {
    "variables that double": "A=aaaaaaaaaa\n" + "A=$A$A\n" * 60 + "train --tp $A",
    "variables of two others": "A0=1\n"
    + "".join(f'A{one}="$A{one - 1} $A{one - 1}"\n' for one in range(1, 60))
    + "x --a $A59",
    "a text that grows": "A=1\n" + 'A="$A --y 2"\n' * 9000 + "train --tp $A",
    "a deep sum": "A=$((" + "(" * 9000 + "1" + ")" * 9000 + "))\ntrain --tp $A",
    "a large sum": "A=$((" + "*".join(["999999999"] * 9) + "))\ntrain --tp $A",
    "a large power": "A=$((9**9**9**9))\ntrain --tp $A",
    "open brackets": "train --tp " + "[" * 400_000,
    "open substitutions": "train --tp " + "${" * 100_000,
    "nested defaults": "train --tp " + "${a:-" * 40_000 + "}" * 40_000,
    "open quotes": "train --tp " + "'\"" * 100_000,
    "open branches": "if [ 1 = 2 ]; then\n" * 12_000 + "train --tp 1",
    "many words": "train " + "--a 1 " * 40_000,
    "open arrays": "A=(" * 50_000 + "train --a",
    "a line of options behind a command": "train --a 1\n--b 2",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_work_is_bounded_before_it_is_done(name: str) -> None:
    start = time.process_time()
    with pytest.raises(BadInput) as refused:
        commands(HOSTILE[name], "run.sh")
    assert str(refused.value.where).startswith("run.sh")
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    "text",
    ["A=$B\nB=$A\ntrain --tp $A", "train --tp " + "(" * 200_000, "train --a " + "\\" * 250_000,
     "\n" * 250_000 + "x --a", "train --tp ${A[" + "9" * 200_000 + "]}", "train --a " + "''" * 100_000,
     "case " + "a" * 9000 + " in\n" + "*a" * 9000 + ")", "bash " * 49_000 + "--a", "bash " * 24_000 + "-x " * 24_000,
     "x " * 40_000 + "<<A " * 40_000, "bash <<A\n" * 9000 + "train --a"],
)  # fmt: skip
def test_other_long_scripts_end(text: str) -> None:
    start = time.process_time()
    commands(text, "run.sh")
    assert time.process_time() - start < 20


HANDED = "--layers 4 --hidden 8"


@pytest.mark.parametrize(
    "start",
    [
        'RUN="torchrun --nproc_per_node 8"\nCMD=" `pwd`/train.py {words} "\n'
        'srun bash -c "$RUN --node_rank \\$SLURM_PROCID $CMD" 2>&1 | tee log\n',
        "RUN='torchrun --nproc_per_node 8'\nCMD='train.py {words}'\nsrun bash -c '$RUN --node_rank $RANK $CMD'\n",
        'CMD="cd $HERE; export A=$B:$A; torchrun --nproc_per_node 8 train.py {words}"\nsrun bash -x -c "${{CMD}}"\n',
        'ARGS="{words}"\nsbatch <<EOF\n#!/bin/bash\nsrun torchrun --nproc_per_node 8 train.py $ARGS\nEOF\n',
        "bash <<'EOF'\ntorchrun --nproc_per_node 8 train.py {words}\nEOF\n",
    ],
)
def test_commands_for_another_shell_keep_their_words_beside_unset_variables(start: str) -> None:
    found = commands(start.format(words=HANDED), "run.sh")[-1]
    assert {"layers": "4", "hidden": "8", "launcher.nproc_per_node": "8"}.items() <= found.words.items()
    assert not any(isinstance(found.words[word], Unset) for word in ("layers", "hidden", "launcher.nproc_per_node"))


def test_here_documents_that_no_shell_runs_are_ignored() -> None:
    text = "cat <<EOF > ds.json\n--layers 5\nEOF\npython - <<EOF\n--layers 6\nEOF\ntorchrun train.py --layers 4\n"
    assert [one.words["layers"] for one in commands(text, "run.sh")] == ["4"]


@pytest.mark.parametrize("head", ["--gpus-per-node=4", "--gres=gpu:4", "--gres=gpu:h100:4", "--gpus-per-node 4"])
def test_devices_of_a_node_are_those_of_the_batch_script(head: str) -> None:
    name = "SLURM_GPUS_ON_NODE" if "gres" in head else "SLURM_GPUS_PER_NODE"
    found = only(f"#!/bin/bash\n#SBATCH {head}\ntorchrun train.py --tp ${name}\n")
    assert found.words["tp"] == "4"


def test_options_of_torchrun_in_a_file_of_options_belong_to_the_launcher() -> None:
    text = 'WHERE="--nproc-per-node 8 --nnodes 2"\nMODEL="--layers 4"\n'
    assert only(text).words == {"launcher.nproc_per_node": "8", "launcher.nnodes": "2", "layers": "4"}
