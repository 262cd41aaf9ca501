from torchtitan.config import CompileConfig
from torchtitan.models.qwen3.config_registry import qwen3_14b
from torchtitan.trainer import Trainer

STEPS = 10 * 1000


def qwen3_14b_run() -> Trainer.Config:
    config = qwen3_14b()
    config.compile = CompileConfig(enable=True)
    config.training.local_batch_size = 2
    config.training.steps = STEPS
    config.parallelism.data_parallel_replicate_degree = 2
    config.parallelism.data_parallel_shard_degree = 8
    config.activation_checkpoint = None
    return config
