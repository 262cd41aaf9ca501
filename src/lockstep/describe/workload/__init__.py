"""Models: what they are, how many parameters, how much arithmetic, which tensors wait for the backward pass.

    from lockstep import workload
    llama = workload.model("llama3-8b")          # or a Hugging Face config.json, or a YAML file
    workload.parameters(llama).total             # 8_030_261_248

Read `architecture.py` first, then `weights.py`; counts, FLOPs and activations are sums over lists.
"""

from lockstep.describe.workload.activations import (
    embedding_activation_B,
    embedding_kept_tensors,
    head_activation_B,
    head_kept_tensors,
    kept_tensors,
    layer_activation_B,
    layer_modes_B,
    spread_activation_B,
)
from lockstep.describe.workload.adapters import Adapters, is_linear
from lockstep.describe.workload.architecture import (
    Attention,
    ConvNet,
    Experts,
    LatentAttention,
    Mlp,
    Model,
    Rotary,
    Transformer,
    with_masked_language_head,
)
from lockstep.describe.workload.catalog import (
    entries,
    model,
    models,
    names,
)
from lockstep.describe.workload.classifier import Classifier
from lockstep.describe.workload.conventions import (
    CONVENTIONS,
    Convention,
    convention,
    narayanan_parameters,
)
from lockstep.describe.workload.convnet import (
    convnet_activation_B,
    convnet_forward_flops,
)
from lockstep.describe.workload.families import families
from lockstep.describe.workload.flops import (
    Flops,
    TrainingFlops,
    forward_flops,
    head_forward_flops,
    keys_per_query,
    layer_forward_flops,
    training_flops,
)
from lockstep.describe.workload.graph import layer_operations, run_again
from lockstep.describe.workload.huggingface_heads import scored
from lockstep.describe.workload.kind import (
    DENSE,
    EXPERTS,
    LayerKind,
)
from lockstep.describe.workload.logits import KeptTensor
from lockstep.describe.workload.modulation import Modulation
from lockstep.describe.workload.modules import modules_of
from lockstep.describe.workload.objective import PLAIN, Objective, Training, read_training
from lockstep.describe.workload.operation import Operation
from lockstep.describe.workload.parameters import (
    ParameterCount,
    RankParameters,
    all_weights,
    parameters,
    rank_parameters,
)
from lockstep.describe.workload.passing import last_norm_gradient_B, passing_gradient_B
from lockstep.describe.workload.passing_scores import passing_scores_B
from lockstep.describe.workload.patches import Patches
from lockstep.describe.workload.piece import (
    FULL,
    MODULES,
    NONE,
    RECOMPUTE,
    SELECTIVE,
    Piece,
    recompute_code,
)
from lockstep.describe.workload.recurrent import (
    DeltaNet,
    Mamba,
    Mamba2,
    Recurrent,
)
from lockstep.describe.workload.stored import stored_weights
from lockstep.describe.workload.weight import Weight
from lockstep.describe.workload.weights import (
    embedding_weights,
    head_weights,
    layer_weights,
    mtp_weights,
)

__all__ = [
    "CONVENTIONS",
    "DENSE",
    "EXPERTS",
    "FULL",
    "MODULES",
    "NONE",
    "PLAIN",
    "RECOMPUTE",
    "SELECTIVE",
    "Adapters",
    "Attention",
    "Classifier",
    "ConvNet",
    "Convention",
    "DeltaNet",
    "Experts",
    "Flops",
    "KeptTensor",
    "LatentAttention",
    "LayerKind",
    "Mamba",
    "Mamba2",
    "Mlp",
    "Model",
    "Modulation",
    "Objective",
    "Operation",
    "ParameterCount",
    "Patches",
    "Piece",
    "RankParameters",
    "Recurrent",
    "Rotary",
    "Training",
    "TrainingFlops",
    "Transformer",
    "Weight",
    "all_weights",
    "convention",
    "convnet_activation_B",
    "convnet_forward_flops",
    "embedding_activation_B",
    "embedding_kept_tensors",
    "embedding_weights",
    "entries",
    "families",
    "forward_flops",
    "head_activation_B",
    "head_forward_flops",
    "head_kept_tensors",
    "head_weights",
    "is_linear",
    "kept_tensors",
    "keys_per_query",
    "last_norm_gradient_B",
    "layer_activation_B",
    "layer_forward_flops",
    "layer_modes_B",
    "layer_operations",
    "layer_weights",
    "model",
    "models",
    "modules_of",
    "mtp_weights",
    "names",
    "narayanan_parameters",
    "parameters",
    "passing_gradient_B",
    "passing_scores_B",
    "rank_parameters",
    "read_training",
    "recompute_code",
    "run_again",
    "scored",
    "spread_activation_B",
    "stored_weights",
    "training_flops",
    "with_masked_language_head",
]
