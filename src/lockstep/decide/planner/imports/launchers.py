"""`launched`: what starts a run (torchrun, srun, a command of a library) apart from the options of the run itself.

    found, rest = launched(words)      {"program": ..., "nproc_per_node": ...} and the words behind the program

Launchers may start one another: `srun torchrun train.py`. Their options are named with underscores and full names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass, field, replace
from lockstep.decide.planner.imports.shell import ASSIGNED, Word

if TYPE_CHECKING:
    from lockstep.decide.planner.imports.said import Said

LAUNCHERS = {"torchrun", "accelerate", "deepspeed", "srun", "mpirun", "mpiexec", "horovodrun", "tune"}
MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
"""Launchers that are started as modules of Python."""
BEGINS = {"accelerate": "launch", "tune": "run"}
"""The subcommand of a launcher that starts a run."""
COMMANDS = {"swift", "megatron", "llamafactory-cli", "trl", "axolotl", "xtuner", "unsloth"}
"""Programs whose first word says what to do; some start a process on each device themselves."""
VARIABLES = {"NPROC_PER_NODE": "nproc_per_node", "NNODES": "nnodes"}
"""Variables before such a program that say how many."""
WRAPPERS = {"sudo", "env", "nohup", "exec", "command", "time", "numactl", "nsys", "ncu", "timeout", "setsid", "nice",
            "stdbuf", "uv", "poetry", "pipenv", "conda", "run", "profile", "python", "python3", "eval"}  # fmt: skip
CONTAINERS = {"docker", "podman", "singularity", "apptainer", "ssh", "kubectl", "enroot", "pdsh"}
"""What else stands before a command there is not told from it by its form."""
TORCHRUN = {"nproc_per_node", "nnodes", "node_rank", "master_addr", "master_port", "rdzv_id", "rdzv_backend",
            "rdzv_endpoint", "max_restarts"}  # fmt: skip
"""Options of torchrun, which some scripts keep in a variable."""
FLAGS = {
    "standalone", "no_python", "run_path", "use_env", "multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm",
    "cpu", "tpu", "quiet", "debug", "exclusive", "label", "unbuffered", "allow_run_as_root", "oversubscribe", "no_ssh",
    "force_multi", "no_local_rank", "enable_elastic_training", "kill_on_bad_exit",
}  # fmt: skip
"""Options of launchers without a value."""
SHORT = {
    "srun": {"N": "nodes", "n": "ntasks", "c": "cpus_per_task", "p": "partition", "w": "nodelist", "G": "gpus"},
    "mpirun": {"np": "ntasks", "n": "ntasks", "c": "ntasks", "N": "ntasks_per_node", "x": "environment", "H": "host"},
}
SHORT["mpiexec"] = SHORT["horovodrun"] = SHORT["mpirun"]
PROGRAM = re.compile(r".*\.(py|sh|bash|pyz)$|.*/(bin/)?(python|torchrun)[\d.]*$")
OPTION = re.compile(r"--?[A-Za-z][\w.-]*")


@dataclass(slots=True)
class Launched:
    """Words of launchers while a command is read."""

    words: dict[str, Word] = field(default_factory=dict)
    current: str = ""
    variables: dict[str, Word] = field(default_factory=dict)

    def named(self, name: str) -> str:
        """The full name of an option, with underscores."""
        bare = name.lstrip("-")
        if name.startswith("--") or self.current not in SHORT:
            return bare.replace("-", "_")
        return SHORT[self.current].get(bare, bare)


def launched(words: Sequence[Word]) -> tuple[dict[str, Word], Sequence[Word]]:
    """What starts a run, by name, and the words of the run; without a program nothing starts it."""
    found, place = Launched(), 0
    while place < len(words):
        word = words[place]
        name = word.text.rpartition("/")[2]
        if word.text in ("-m", "--module") and place + 1 < len(words):
            module = words[place + 1]
            place += 2
            if module.text not in MODULES:
                return _started(found, module, words[place:])
            found.current = MODULES[module.text]
            found.words["name"] = Word(found.current, module.line)
        elif OPTION.match(word.text) and (found.current or place):
            place += _option(found, words[place:])
        elif name in LAUNCHERS and found.current != name:
            found.current = name
            found.words["name"] = Word(name, word.line)
            place += 1 + (place + 1 < len(words) and words[place + 1].text == BEGINS.get(name))
        elif ASSIGNED.match(word.text) and (variable := VARIABLES.get(word.text.partition("=")[0])):
            found.variables[variable] = replace(word, text=word.text.partition("=")[2])
            found.current = found.current or "wrapper"
            place += 1
        elif name in WRAPPERS or re.fullmatch(r"python[\d.]*", name) or ASSIGNED.match(word.text):
            place += 1
            found.current = found.current if name.startswith("python") else found.current or "wrapper"
        elif name in CONTAINERS or found.current == "container" or (found.current == "wrapper" and _is_number(word)):
            found.current = "container" if name in CONTAINERS else found.current
            place += 1
        elif word.text.startswith("-"):
            break
        else:
            return _started(found, word, words[place + 1 :])
    return {}, words


def _started(found: Launched, program: Word, rest: Sequence[Word]) -> tuple[dict[str, Word], Sequence[Word]]:
    """The program, with its subcommand."""
    found.words["program"] = program
    known = program.text.rpartition("/")[2] in COMMANDS
    found.words = {**(found.variables if known else {}), **found.words}
    if known and rest and not rest[0].text.startswith("-"):
        found.words["subcommand"] = rest[0]
        rest = rest[1:]
    return found.words, rest


def _option(found: Launched, words: Sequence[Word]) -> int:
    """Takes an option of a launcher in; the number of words it has."""
    said, joined, given = words[0].text.partition("=")
    name = found.named(said)
    taken = 1
    value = Word(given, words[0].line, words[0].unset, words[0].doubt) if joined else None
    if value is None and len(words) > 1 and name not in FLAGS and not _is_program(words[1]):
        value, taken = words[1], 2
    if found.current in LAUNCHERS:
        found.words[name] = value or Word("true", words[0].line)
    elif found.current not in ("", "wrapper", "container") or not said.startswith("--"):
        taken = 1
    return taken


def _is_program(word: Word) -> bool:
    """Whether a word is no value of an option before it."""
    name = word.text.rpartition("/")[2]
    return bool(
        (word.text.startswith("-") and not _is_number(word))
        or PROGRAM.fullmatch(word.text)
        or name in LAUNCHERS | COMMANDS
        or re.fullmatch(r"python[\d.]*|bash|sh", name)
    )  # fmt: skip


def _is_number(word: Word) -> bool:
    return re.fullmatch(r"-?[\d.]+[smh]?", word.text) is not None


def devices(said: Said) -> int | None:
    """The number of devices that a launcher starts, one process on each; None where the command leaves it open."""
    per_node = said["launcher.nproc_per_node"] or said["launcher.ntasks_per_node"] or said["launcher.num_gpus"]
    nodes = said["launcher.nnodes"] or said["launcher.num_nodes"] or said["launcher.nodes"]
    if not isinstance(per_node, int):
        return said["launcher.ntasks"] if per_node is None else None
    open_ones = ("launcher.nnodes", "launcher.nodes", "launcher.hostfile")
    if nodes is None and any(one in said.text.words for one in open_ones):
        return None
    return per_node * (1 if nodes is None else nodes) if isinstance(nodes, int | None) else None
