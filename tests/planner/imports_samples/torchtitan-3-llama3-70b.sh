torchrun --nproc_per_node=8 --nnodes=8 -m torchtitan.train \
    --module llama3 \
    --config llama3_70b \
    --training.local-batch-size 4 \
    --training.global-batch-size 512 \
    --training.steps 2000 \
    --parallelism.data-parallel-shard-degree 8 \
    --parallelism.tensor-parallel-degree 4 \
    --parallelism.pipeline-parallel-degree 2 \
    --parallelism.pipeline-parallel-schedule Interleaved1F1B \
    --training.disable-cuda-graphs \
    --compile.enable \
    --compile.components model loss \
    --metrics.log-freq 10 \
    --checkpoint.interval 500 \
    activation-checkpoint:selective
