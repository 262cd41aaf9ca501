export NGPU=8
torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint=localhost:0 \
    -m torchtitan.train --module llama3 --config llama3_8b \
    --training.seq-len 32768 --parallelism.context-parallel-degree 4 \
    --parallelism.fsdp-reshard-after-forward never \
    --training.enable-cpu-offload activation-checkpoint:full
