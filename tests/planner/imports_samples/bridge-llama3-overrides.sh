#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
TP=2
srun torchrun --nproc-per-node=8 --nnodes=$SLURM_NNODES run_recipe.py \
    --recipe llama3_8b_pretrain_config \
    model.tensor_model_parallel_size=$TP \
    model.pipeline_model_parallel_size=1 \
    model.context_parallel_size=2 \
    model.sequence_parallel=true \
    model.recompute_granularity=null \
    train.global_batch_size=128 train.micro_batch_size=1 train.train_iters=50 \
    model.seq_length=8192 dataset.seq_length=8192 \
    mixed_precision=bf16_with_fp8_current_scaling_mixed \
    ddp.overlap_param_gather=true \
    logger.log_interval=1
