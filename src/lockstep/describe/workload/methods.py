"""`Method`: what Hugging Face's PEFT trains beside one frozen matrix W (in x out), and what it computes for it.

    method   output                                       trained
    lora     x W + (x A) B s                              A: in x r, B: r x out
    dora     (m / |W + A B s|) (x W + (x A) B s)          A, B, and the magnitudes m: out
    vera     x W + b * ((d * (x A)) B)                    d: r, b: out; all matrices share one frozen A and one frozen B
    oft      (x R) W                                      R: a rotation of each block of k inputs, k (k - 1) / 2 angles
    ia3      l * (x W), of down projections (l * x) W     l: out, or in
    prompt   rows of the embedding before each sequence   tokens x hidden; nothing beside any matrix

rsLoRA (s = alpha / sqrt(r)) and PiSSA (A and B begin as the largest singular parts of W, which keeps the rest) are LoRA
with other numbers; PiSSA's rank is at most the smaller side of W. |.| is the norm of each column, without a gradient.

Sources: DoRA, arXiv 2402.09353, section 4; rsLoRA, arXiv 2312.03732; PiSSA, arXiv 2404.02948; VeRA, arXiv 2310.11454,
section 3; OFT, arXiv 2306.07280, with a Cayley transform by five terms of Neumann's series; IA3, arXiv 2205.05638,
section 3.3; prompt tuning, arXiv 2104.08691; peft 0.21.2, peft/tuners/{lora,vera,oft,ia3,prompt_tuning}.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.records import dataclass, replace
from lockstep.describe.workload.weight import Cut, Weight

METHODS = ("lora", "vera", "oft", "ia3", "prompt")
"""What `--train` may name in the place of LoRA; DoRA, rsLoRA and PiSSA are settings of it."""
INPUT_SCALED = ("down", "shared down", "expert down")
"""Matrices whose input IA3 scales, not their output."""


@dataclass(frozen=True, slots=True)
class Method:
    """What is put beside each matrix that is a target."""

    name: str = "lora"
    """Of METHODS."""
    dora: bool = False
    rslora: bool = False
    pissa: bool = False
    block: int = 0
    """Inputs that OFT rotates together; where it does not divide a matrix's inputs, the nearest number that does."""
    blocks: int = 0
    """Blocks of OFT's rotation in the place of their size."""
    tokens: int = 0
    """Rows of prompt tuning before each sequence."""

    @property
    def plain(self) -> bool:
        """Whether it computes what LoRA computes."""
        return self.name == "lora" and not self.dora

    @property
    def gradients(self) -> int:
        """Products of the backward pass for each of the forward pass: one where its matrices are frozen."""
        return 1 if self.name == "vera" else 2

    @property
    def title(self) -> str:
        """Its name in words."""
        if self.name != "lora":
            return {"vera": "VeRA", "oft": "OFT", "ia3": "IA3", "prompt": "prompt tuning"}[self.name]
        kinds = {"DoRA": self.dora, "rsLoRA": self.rslora, "PiSSA": self.pissa}
        return " with ".join(name for name, on in kinds.items() if on) or "LoRA"

    def rank_on(self, weight: Weight, rank: int, joint: bool) -> int:
        """The rank beside a matrix: PiSSA finds no more singular parts than its smaller side has."""
        sides = weight.shape[:1] if joint else weight.shape
        return min(rank, *sides) if self.pissa else rank

    def block_on(self, inputs: int) -> int:
        """Inputs in a block of OFT: the size asked for, or the nearest divisor; of two as near the smaller one."""
        if self.blocks:
            return inputs // _nearest_divisor(inputs, self.blocks)
        return _nearest_divisor(inputs, self.block)

    def scales_input(self, weight: Weight) -> bool:
        """Whether it changes what the matrix reads, and so has nothing of its own beside a joined one."""
        return self.name == "oft" or (self.name == "ia3" and weight.name in INPUT_SCALED)

    def keeps_input(self, weight: Weight) -> bool:
        """Whether a gradient of what it trains needs what the matrix reads."""
        return self.name == "lora" or self.scales_input(weight)

    def beside(self, weight: Weight, rank: int, own: bool, rows: bool) -> Iterator[Weight]:
        """What it trains beside a matrix apart from LoRA's A and B.

        Args:
            own: whether the matrix is the first of those that are one linear layer.
            rows: whether tensor parallelism cuts the matrix's rows.

        """
        inputs, outputs = weight.shape
        read: Cut = weight.cut if rows or weight.cut == "expert" else "none"
        given: Cut = "none" if rows else weight.cut
        if self.dora:
            yield replace(weight, name=f"{weight.name} magnitudes", shape=(outputs,), cut=given)
        elif self.name == "vera":
            if own:
                yield replace(weight, name=f"{weight.name} d", shape=(rank,), cut="none")
            yield replace(weight, name=f"{weight.name} b", shape=(outputs,), cut=given)
        elif self.name == "oft" and own:
            block = self.block_on(inputs)
            shape = inputs // block, block * (block - 1) // 2
            yield replace(weight, name=f"{weight.name} rotation", shape=shape, cut=read)
        elif self.name == "ia3" and (own or not self.scales_input(weight)):
            scaled = self.scales_input(weight)
            size, cut = (inputs, read) if scaled else (outputs, given)
            yield replace(weight, name=f"{weight.name} scale", shape=(size,), cut=cut)

    def products(self, weight: Weight, rank: int, own: bool) -> int:
        """Multiply-accumulates of its products for a token; sums and scales are not counted, as nowhere."""
        inputs, outputs = weight.shape
        if self.name in ("lora", "vera"):
            return weight.used * rank * (own * inputs + outputs)
        return weight.used * inputs * self.block_on(inputs) if self.name == "oft" and own else 0


LORA = Method()


def _nearest_divisor(whole: int, asked: int) -> int:
    """The divisor of `whole` that is nearest to `asked`, at most itself."""
    return min((one for one in range(1, whole + 1) if whole % one == 0), key=lambda one: (abs(one - asked), one))
