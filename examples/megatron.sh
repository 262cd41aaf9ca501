#!/bin/bash
# A run of Megatron-LM: the model, the batch and the layout of Llama 3 70B on 64 devices.
TP=8
PP=4
MODEL="--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --vocab-size 128256 \
    --group-query-attention --num-query-groups 8 --swiglu --disable-bias-linear --normalization RMSNorm \
    --untie-embeddings-and-output-weights --position-embedding-type rope --rotary-base 500000 \
    --seq-length 8192 --max-position-embeddings 8192 --attention-dropout 0.0 --hidden-dropout 0.0"

torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py $MODEL --bf16 \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --sequence-parallel \
    --micro-batch-size 1 --global-batch-size 256 --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather --rampup-batch-size 64 64 100000
