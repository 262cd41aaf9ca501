DATA=../data/train.json
MODEL=meta-llama/Llama-2-70b-chat-hf

deepspeed ../train/train_lora.py \
    --model_name_or_path $MODEL \
    --lora_r 64 \
    --lora_alpha 16 \
    --lora_dropout 0.05 \
    --data_path $DATA \
    --output_dir ./checkpoints \
    --num_train_epochs 5 \
    --bf16 True \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --evaluation_strategy "epoch" \
    --save_total_limit 10 \
    --learning_rate 3e-4 \
    --weight_decay 0. \
    --lr_scheduler_type "cosine" \
    --tf32 True \
    --model_max_length 1024 \
    --q_lora True \
    --gradient_checkpointing True \
    --flash_attn True
