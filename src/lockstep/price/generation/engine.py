"""`Engine`: one copy of a model that generates: the devices that it is cut over, its formats, and its limits.

    devices = tp * dp * pp          attention is cut over tp ranks and repeated over dp groups of sequences;
                                    experts are divided over ep of the tp * dp ranks of a stage, cut inside by the rest

Formats say what is stored: weights of matrices, and keys and values. Tables of embeddings, norms and routers stay in
bf16, as engines keep them.
"""

from __future__ import annotations

import math

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Transformer

WEIGHT_FORMATS = {
    "bf16": (2.0, ""),
    "fp16": (2.0, ""),
    "fp8": (1.0, "fp8"),
    "nvfp4": (0.5 + 1 / 16, "fp4"),
    "mxfp4": (0.5 + 1 / 32, ""),
}
"""Bytes per element, scales included (a byte per 16 elements of nvfp4, per 32 of mxfp4), and the format of the product
where that is not half precision. Weights in mxfp4 are widened on chip (github.com/openai/gpt-oss, README).
"""
KV_FORMATS = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
"""Bytes per element of a key or value."""
HOST_S = 20e-6
"""Seconds of the host for a sequence at each step, in which the device waits: engines of 2025 and 2026 take 10 to 55 us
(vLLM 0.12 to 0.19), 20 to 25 (TensorRT-LLM) and 15 (SGLang), by what tokens take beyond the kernels priced here in
ai-dynamo/aiconfigurator@095f58a, silicon_sample.csv; vLLM as ml-energy/leaderboard@0cd52da served with it took 75 to
95 us for dense and hybrid models of 8B to 70B on H100, with nothing else left to explain above 1 to 5 %. Chosen after
these tables were asked first."""
WIDE_B = 2.0
"""Bytes per element of what stays in bf16: activations, tables, norms, routers, the head."""
LIMITS = {**dict.fromkeys(("tp", "pp", "dp", "ep"), 4096), "most_sequences": 65_536, "pass_tokens": 1 << 20}
"""Beyond these a number is taken for a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One copy of a model that generates."""

    model: Transformer
    cluster: Cluster
    """Its devices or more: the first `devices` of them are an engine's."""
    tp: int = 1
    pp: int = 1
    dp: int = 1
    """Groups of sequences that attention is repeated over (data-parallel attention)."""
    ep: int = 1
    """Ranks among which experts are divided."""
    weights_dtype: str = "bf16"
    experts_dtype: str = ""
    """Format of routed experts; as the other weights where it is empty."""
    kv_dtype: str = "bf16"
    memory_frac: float = 0.9
    """Share of a device's memory that weights, working memory and the pool of keys and values may take."""
    most_sequences: int = 1024
    """Sequences in flight at most."""
    pass_tokens: int = 8192
    """Tokens of one pass at most; longer prefills are cut into chunks."""
    host_s: float = HOST_S
    """Of the host at each step for each sequence: scheduling, sampling, making text of its token."""

    def __post_init__(self) -> None:
        for name, most in LIMITS.items():
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
                raise BadInput(f"must be a whole number from 1 to {most:,}, got {number!r}", name)
        if not 0 <= self.host_s < math.inf:
            raise BadInput(f"must be a time of 0 or more, got {self.host_s:g}", "host_s")
        if not 0 < self.memory_frac <= 1:
            raise BadInput(f"must be above 0 and at most 1, got {self.memory_frac:g}", "memory_frac")
        for name, known in (("weights_dtype", WEIGHT_FORMATS), ("kv_dtype", KV_FORMATS)):
            if getattr(self, name) not in known:
                raise UnknownName("number format", getattr(self, name), known, name)
        for dtype in filter(None, (self.weights_dtype, self.experts_dtype)):
            product = WEIGHT_FORMATS.get(dtype, (0.0, ""))[1]
            if product and not self.cluster.device.takes(product):
                raise BadInput(f"{self.cluster.device.name} has no units for products in {dtype}", "weights_dtype")
        if self.experts_dtype and self.experts_dtype not in WEIGHT_FORMATS:
            raise UnknownName("number format", self.experts_dtype, WEIGHT_FORMATS, "experts_dtype")
        self._check_layout()

    def _check_layout(self) -> None:
        """Raises BadInput where the layout cannot be."""
        model = self.model
        if not model.attention.causal or model.encoder_layers:
            raise BadInput(f"{model.name} does not generate text: its attention is not causal", "model")
        if self.devices > self.cluster.num_devices:
            raise BadInput(
                f"an engine of tp={self.tp} x dp={self.dp} x pp={self.pp} needs {self.devices} devices, there are "
                f"{self.cluster.num_devices}",
                "tp",
            )
        if model.attention.heads % self.tp:
            raise BadInput(f"tp={self.tp} does not divide {model.attention.heads} attention heads", "tp")
        if self.pp > model.layers:
            raise BadInput(f"pp={self.pp} is more than the {model.layers} layers of {model.name}", "pp")
        experts = model.experts.experts if model.experts else 0
        if self.ep > 1 and (not experts or experts % self.ep or self.stage_ranks % self.ep):
            raise BadInput(
                f"ep={self.ep} must divide the {experts} experts of {model.name} and the {self.stage_ranks} ranks of a "
                "stage",
                "ep",
            )

    @property
    def stage_ranks(self) -> int:
        """Ranks of one stage."""
        return self.tp * self.dp

    @property
    def devices(self) -> int:
        """Devices of the engine."""
        return self.stage_ranks * self.pp

    @property
    def experts_tp(self) -> int:
        """Ranks that one expert is cut over."""
        return self.stage_ranks // self.ep

    def format_of(self, category: str) -> tuple[float, str]:
        """Bytes per element of a category of weights, and the format that its products run in."""
        if category in ("embedding", "positions", "norms", "router", "head"):
            return WIDE_B, self.wide
        stored = self.experts_dtype if category == "routed_experts" and self.experts_dtype else self.weights_dtype
        size_B, product = WEIGHT_FORMATS[stored]
        return size_B, product or self.wide

    @property
    def wide(self) -> str:
        """The half-precision format of the device: bf16, or fp16 where it has no units for that."""
        return "bf16" if self.cluster.device.takes("bf16") else "fp16"

    @property
    def kv_B(self) -> float:
        """Bytes per element of a key or value."""
        return KV_FORMATS[self.kv_dtype]
