#!/bin/bash
DIR=`pwd`
GPUS_PER_NODE=8
NNODES=1
MODEL="meta-llama/Llama-2-7b-hf"

DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank 0
"

torchrun $DISTRIBUTED_ARGS finetune.py \
    --model_name_or_path $MODEL \
    --data_path path_to_data \
    --bf16 True \
    --output_dir output \
    --num_train_epochs 5 \
    --per_device_train_batch_size 2 \
    --per_device_eval_batch_size 1 \
    --gradient_accumulation_steps 8 \
    --learning_rate 3e-4 \
    --adam_beta2 0.95 \
    --lr_scheduler_type "cosine" \
    --report_to "none" \
    --model_max_length 512 \
    --lazy_preprocess True \
    --use_lora \
    --gradient_checkpointing
