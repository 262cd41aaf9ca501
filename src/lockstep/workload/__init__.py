"""Models: what they are, how many parameters, how much arithmetic, which tensors wait for the backward pass.

    from lockstep import workload
    llama = workload.model("llama3-8b")          # or a Hugging Face config.json, or a YAML file
    workload.parameters(llama).total             # 8_030_261_248
"""

from lockstep.workload.architecture import Attention as Attention
from lockstep.workload.architecture import ConvNet as ConvNet
from lockstep.workload.architecture import Experts as Experts
from lockstep.workload.architecture import LatentAttention as LatentAttention
from lockstep.workload.architecture import Mlp as Mlp
from lockstep.workload.architecture import Model as Model
from lockstep.workload.architecture import Transformer as Transformer
from lockstep.workload.catalog import entries as entries
from lockstep.workload.catalog import model as model
from lockstep.workload.catalog import models as models
from lockstep.workload.catalog import names as names
from lockstep.workload.parameters import ParameterCount as ParameterCount
from lockstep.workload.parameters import RankParameters as RankParameters
from lockstep.workload.parameters import parameters as parameters
from lockstep.workload.parameters import rank_parameters as rank_parameters
from lockstep.workload.weights import Weight as Weight
from lockstep.workload.weights import embedding_weights as embedding_weights
from lockstep.workload.weights import head_weights as head_weights
from lockstep.workload.weights import layer_weights as layer_weights
from lockstep.workload.weights import mtp_weights as mtp_weights
