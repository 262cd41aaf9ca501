"""What people say who come from other software, and what to say here instead.

Where spelling misleads, meaning decides: `--lora` is near `--plot` in letters and far in sense. A text below may name
words of Lockstep in brackets, `[tp]` or `[zero 3]`; they are written as flags or as keywords where the text is shown.
Of several texts the first counts whose words the verb takes. Words of other software are those of Megatron-LM,
DeepSpeed, PyTorch FSDP, torchtitan, NeMo, Hugging Face transformers and nccl-tests.
"""

from __future__ import annotations

import re

_SAME: dict[str, tuple[str, ...]] = {
    """tp_size tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size tp_degree mp
    mp_size model_parallel model_parallel_size""": ("tp", "ranks"),
    "pp": ("stages",),
    "stages": ("pp",),
    "vpp": ("chunks",),
    "chunks": ("vpp",),
    "gpus": ("ranks", "workers"),
    "ranks": ("gpus", "workers"),
    "workers": ("ranks", "gpus"),
    """pp_size pipeline_parallel pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size pp_degree
    num_stages pipeline_stages""": ("pp", "stages"),
    "dp_size data_parallel data_parallel_size data_parallel_degree dp_degree replicas num_replicas": ("dp", "workers"),
    "cp_size context_parallel context_parallel_size context_parallel_degree ring_attention": ("cp",),
    "ep_size expert_parallel expert_parallel_size expert_parallel_degree expert_model_parallel_size": ("ep",),
    """etp_size expert_tp expert_tp_size expert_tensor_parallel expert_tensor_parallel_size
    expert_tensor_parallel_degree""": ("etp",),
    """vp vpp_size virtual_pipeline virtual_stages virtual_pipeline_model_parallel_size num_virtual_stages model_chunks
    num_model_chunks""": ("vpp", "chunks"),
    """mbs micro_batch_size microbatch microbatch_size micro_bsz local_batch_size per_device_batch_size
    per_device_train_batch_size train_micro_batch_size_per_gpu device_batch_size""": ("micro_batch",),
    "hidden_size d_model n_embd": ("hidden",),
    "num_heads n_heads n_head num_attention_heads": ("heads",),
    "ffn_hidden_size intermediate_size": ("ffn",),
    "gbs bs batch_size global_batch global_batch_size train_batch_size total_batch_size": ("batch",),
    "tokens_per_batch tokens_per_step batch_size_tokens global_batch_tokens": ("batch_tokens",),
    """seq_len seq_length seqlen sequence_length max_seq_len max_seq_length max_length model_max_length context
    context_length context_window n_ctx block_size max_position_embeddings""": ("seq",),
    "gpu num_gpus n_gpus ngpus num_devices n_devices devices chips accelerators": ("gpus", "ranks", "workers"),
    "world_size nproc num_ranks nranks n_ranks num_workers n_workers num_processes": ("ranks", "workers", "gpus"),
    "zero_stage stage zero_optimization sharding_strategy data_parallel_sharding_strategy": ("zero",),
    "precision mixed_precision torch_dtype data_type params_dtype compute_dtype number_format": ("dtype",),
    "fp8_recipe float8_recipe scaling_type quantization_recipe": ("fp8_scaling",),
    "sp seq_parallel sequence_parallelism enable_sequence_parallel": ("sequence_parallel",),
    "flash_attention flash_attn use_flash_attn use_flash_attention attn_implementation": ("flash",),
    "optim optimizer_type optimizer_name": ("optimizer",),
    "attention_dropout hidden_dropout attn_dropout": ("dropout",),
    "overlap_grad_reduce overlap_param_gather overlap_comm overlap_dp": ("overlap",),
    "reshard_after_forward fsdp_reshard_after_forward": ("reshard",),
    """max_reuse_distance max_live_parameters param_persistence_threshold prefetch_bucket_size stage3_max_reuse_distance
    stage3_max_live_parameters stage3_param_persistence_threshold stage3_prefetch_bucket_size
    reduce_bucket_size""": ("gather_limits",),
    "requires_gradient_sync no_sync": ("gradient_sync",),
    "cp_comm_type context_parallel_rotate_method": ("cp_kind",),
    "vocab_parallelism vocabulary_parallel enable_vocab_parallel vocab_size_parallel": ("vocab_parallel",),
    "sync_steps inner_steps sync_every": ("local_steps",),
    """cpu_offloading_num_layers cpu_checkpointing activation_offloading enable_activation_offloading
    offload_activations fine_grained_activation_offloading""": ("offload_layers",),
    "tp_comm_overlap async_tensor_parallel enable_async_tensor_parallel": ("overlap_tp", "overlap"),
    "accumulate_allreduce_grads_in_fp32 main_grads_dtype grad_dtype gradient_dtype": ("gradient_bytes",),
    "grad_reduce_dtype reduce_dtype grad_reduce_in_fp32 communication_data_type": ("reduce_bytes",),
    "train_tokens num_tokens total_tokens training_tokens dataset_tokens": ("tokens",),
    "message_size msg_size nbytes data_size num_bytes": ("size",),
    "algo nccl_algo": ("algorithm",),
    "alpha lat link_latency": ("latency",),
    "topk moe_router_topk num_experts_per_tok": ("top_k",),
    "num_experts n_experts num_local_experts": ("experts",),
    "moe_expert_capacity_factor": ("capacity_factor",),
    "num_microbatches n_microbatches num_micro_batches micro_batches": ("microbatches",),
    "mttf mean_time_between_failures": ("mtbf",),
    "num_spares spare_nodes hot_spares": ("spares",),
    "price_per_hour gpu_price hourly_price hourly_rate cost_per_gpu_hour": ("price",),
    "tdp watts": ("power",),
    "warmup warmup_iters lr_warmup_iters lr_warmup_steps": ("warmup_steps", "warm_up"),
    "max_steps num_steps train_iters n_steps iterations iters": ("steps", "repeats"),
    "lr": ("learning_rate",),
    "output output_file out_file outfile save_to": ("out",),
    "cluster_name hardware gpu_type gpu_model device_type machine system accelerator": ("cluster",),
    "model_name model_name_or_path arch architecture": ("model",),
    "scheduler pipeline_schedule pipeline_parallel_schedule": ("schedule",),
    "save_interval checkpoint_interval": ("interval", "every"),
}  # fmt: skip

_ADAPTERS = 'use [train "lora:r=16,targets=all-linear"]'
_QUANTISED = 'use [base "nf4"], [base "int8"] or [base "gptq"], with adapters as [train "lora:r=16,targets=all-linear"]'
_SERVING = "only training is priced, not inference"
_AFTER = 'use [train "dpo"], [train "grpo:generation=60%"] or [train "ppo"], with adapters as [train "dpo,lora:r=16"]'
_FROZEN = 'all is frozen but adapters with [train "lora:r=16,targets=all-linear"]; otherwise every parameter is trained'
_SHAPE = "the shape belongs to the model: give a config.json or a YAML file as MODEL"
_LINKS = "links belong to the cluster: give a YAML file of your own as [cluster]"
_NODES = 'the number of nodes follows the name of the cluster, as [cluster "dgx-h100:4"]'
_ACCUMULATED = "it follows from [batch] / (dp * micro-batch), so change [micro_batch]"
_RUN = "this is about one step; lockstep campaign takes the [tokens] of a whole run"

_MEANT: dict[str, tuple[str, ...]] = {
    "lora qlora peft adapter adapters lora_rank lora_r lora_alpha lora_dropout lora_target_modules": (_ADAPTERS,),
    "load_in_4bit load_in_8bit quantization quantize nf4 gptq awq bnb_4bit_quant_type": (_QUANTISED,),
    "freeze frozen trainable trainable_parameters": (_FROZEN,),
    "inference serving serve generate prompt prompt_length max_new_tokens max_tokens kv_cache decode": (_SERVING,),
    "rlhf ppo dpo grpo rl reinforcement_learning rollouts preference": (_AFTER,),
    "optimizer_in_bwd optimizer_in_backward fused_backward_pass lomo adalomo": ("use [update_in_backward]",),
    "sft finetune fine_tune finetuning": ("fine-tuning all parameters is training: give its [batch] and [seq]",),
    "nodes num_nodes nnodes n_nodes hosts num_hosts": (_NODES,),
    "gpus_per_node devices_per_node nproc_per_node ntasks_per_node": (
        "it follows from the cluster; a YAML file of your own as [cluster] may describe other nodes",
    ),
    "use_distributed_optimizer distributed_optimizer": ("use [zero 1]",),
    "fsdp fsdp2 full_shard fully_shard use_fsdp": ("FSDP's full sharding is [zero 3], and its hybrid form [shard]",),
    "hsdp hybrid_shard data_parallel_replicate_degree": ("use [shard] with [zero 3]: the ranks that share",),
    "ddp no_shard": ("replicas without sharding are [zero 0], the default",),
    "deepspeed deepspeed_config": ("specify what DeepSpeed should do, as [zero 2] or [offload]; "
        "export writes its file",),
    "megatron nemo torchtitan": ("specify what it should do, as [tp]; export writes its flags",),
    "paged paged_optimizer paged_adamw paged_adamw_8bit paged_adamw_32bit": (
        'use [offload "paged"], with [optimizer "adamw-8bit"] for states of 8 bits',
    ),
    "cpu_offload zero_offload offload_optimizer optimizer_cpu_offload offload_optimizer_device": (
        'use [offload "optimizer"]',
    ),
    "offload_param offload_params offload_parameters offload_param_device zero_infinity": (
        'use [offload "parameters"]',
    ),
    "bf16 bfloat16 use_bf16": ('use [dtype "bf16"]',),
    "fp16 float16 half amp": ('use [dtype "fp16"]',),
    "fp8 fp8_format transformer_engine": ('use [dtype "fp8"]',),
    "fp32 float32 tf32": ('use [dtype "tf32"] or [dtype "fp32"]',),
    """microbatches num_microbatches n_microbatches gradient_accumulation gradient_accumulation_steps grad_acc
    grad_accum grad_accumulation_steps accumulate_grad_batches accumulation_steps""": (_ACCUMULATED,),
    """activation_checkpointing activation_checkpoint gradient_checkpointing checkpoint_activations ac remat
    activation_recompute recompute_activations recompute_granularity recomputation""": (
        'use [recompute "selective"] or [recompute "full"]',
    ),
    "recompute_num_layers": ('use [recompute_layers], with [recompute "full"]',),
    "recompute_method": ("Megatron's method block is [recompute_layers], uniform [recompute \"full\"] alone",),
    "ulysses deepspeed_sequence_parallel_size": ('use [cp], with [cp_kind "all-to-all"]',),
    "compile torch_compile": ("what a compiler fuses here is [fused_elementwise], the default",),
    "layers num_layers n_layers n_layer num_hidden_layers": ("use [layers]", _SHAPE),
    """experts top_k hidden_size d_model n_embd ffn_hidden_size intermediate_size num_heads n_heads n_head
    num_attention_heads num_key_value_heads vocab_size params num_params parameters model_size""": (_SHAPE,),
    "bw bandwidth_gbps link_bandwidth beta": ("use [bandwidth]", _LINKS),
    "nvlink infiniband ib network_bandwidth inter_bandwidth intra_bandwidth inter_bw intra_bw": (_LINKS,),
    "steps max_train_steps total_steps": (_RUN, "the length of a run is its [tokens]: steps times those of a batch"),
    "epochs num_epochs num_train_epochs n_epochs": (
        "the length of a run is its [tokens]: epochs times those of the data", "use [steps]", _RUN,
    ),
    "learning_rate max_lr min_lr": ("a step takes the same time at any learning rate; see lockstep converge",),
    "mfu hfu utilization target_mfu": ("that is an answer, not a setting",),
    "layout parallelism strategy mesh": ("a layout is given by its parts: [tp], [pp], [zero]",),
    "config config_file yaml": ("the model and the cluster may each be a file: MODEL, and [cluster]",),
    "json as_json to_json": ("use [json]", "results have to_dict()"),
    "verbose debug quiet silent log_level": ("answers contain everything; there is no such switch",),
}  # fmt: skip

LAYOUT = ("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "micro_batch", "zero", "shard", "recompute", "sequence_parallel",
          "schedule", "order", "stages", "mtp_stage")  # fmt: skip
"""Words that only verbs about one layout take."""
SEARCHING = ("scaling", "guide")
"""Verbs that choose the layout themselves."""
PUNCTUATION = "[^a-z0-9]*"
SHORTEST = 4
"""Letters of a family whose name may go on with letters."""


def _spread() -> dict[str, tuple[str, ...]]:
    """Every word of the two tables with its texts."""
    found: dict[str, tuple[str, ...]] = {}
    for words, ours in _SAME.items():
        for word in words.split():
            found[word] = found.get(word, ()) + tuple(f"use [{one}]" for one in ours)
    for words, texts in _MEANT.items():
        for word in words.split():
            found[word] = found.get(word, ()) + texts
    return found


OPTIONS = _spread()
"""Word of an option -> texts."""

COMMANDS = {
    word: text
    for words, text in {
        "predict price step run": "estimate prices one layout, campaign a whole run",
        "simulate simulation": "estimate simulates a step, collective --simulate and pipeline simulate theirs",
        "search tune autotune optimize optimise best recommend": "plan searches for the best layout",
        "mem vram gpu-memory": "use memory",
        "allreduce all-reduce": "use collective all-reduce",
        "allgather all-gather": "use collective all-gather",
        "reducescatter reduce-scatter": "use collective reduce-scatter",
        "alltoall all-to-all": "use collective all-to-all",
        "nccl nccl-test nccl-tests osu perf benchmark": "bench measures, collective predicts",
        "profile profiler": "bench measures this machine, roofline shows what bounds a layout",
        "cost money days": "campaign shows what a whole run costs",
        "list models clusters devices gpus hardware": "use catalog",
        "finetune fine-tune sft": "fine-tuning all parameters is training: ask plan or estimate with its batch",
        "lora qlora peft": f"{_ADAPTERS}; ask estimate",
        "rlhf ppo dpo grpo": _AFTER,
        "serve serving inference infer generate": _SERVING,
        "goodput failures mtbf reliability": "checkpoint and campaign are about failures",
        "moe": "experts is about one layer, estimate --ep about a model",
        "tp tensor-parallel tensor_parallel tensor-parallelism megatron": (
            "tensor is about one layer, estimate --tp about a model"
        ),
        "bubble schedule": "use pipeline",
        "scale": "use scaling",
        "convergence": "use converge",
        "version": "use lockstep --version",
        "help": "use lockstep --help",
    }.items()
    for word in words.split()
}
"""Command -> text."""

_STATE = "its state-space or linear-attention layers are of another kind than those that are read"
_UNREAD = "no file of its kind is read yet; where its layers are ordinary, a YAML file can describe it"
_SEES = "of models of images only ViT, DiT and ResNet are read, of those of sound none"
_TWO = "of encoders with decoders only T5 and mT5 are read"
_CLOSED = "its shape was never published"
ARCHITECTURES = {
    word: text
    for words, text in {
        """falconmamba falconh1 zamba zamba2 rwkv retnet xlstm recurrentgemma hymba kimilinear lfm2
        minimaxm1 olmohybrid""": _STATE,
        """gemma3n gemma4 glm5 chatglm mistral4 grok1 grok2 phi3small phi4multimodal internlm2
        internlm3 baichuan hunyuanv1moe deepseekv32 deepseekv4 arctic openelm persimmon apertus xglm albert
        electra deberta distilbert modernbert xlmroberta""": _UNREAD,
        """deit beit dinov2 dinov3 swin convnext clip siglip mllama idefics pixtral
        stablediffusion sdxl sd3 flux pixart unet whisper wav2vec2 hubert""": _SEES,
        "umt5 ul2 byt5 longt5 bart mbart pegasus marian m2m100 nllb": _TWO,
        "gpt35 gpt4 gpt5 chatgpt claude gemini grok3 grok4 o1 o3": _CLOSED,
    }.items()
    for word in words.split()
}
"""Architecture or family of models that is not priced, without punctuation -> why not."""

VALUES: dict[str, dict[str, str]] = {
    "key": {
        "numhiddenlayers": "layers", "numlayers": "layers", "nlayers": "layers", "nlayer": "layers",
        "hiddensize": "hidden", "dmodel": "hidden", "nembd": "hidden", "vocabsize": "vocab",
        "maxpositionembeddings": "max_positions", "nctx": "max_positions", "numattentionheads": "heads",
        "numheads": "heads", "nheads": "heads", "nhead": "heads", "numkeyvalueheads": "kv_heads",
        "numquerygroups": "kv_heads", "nkvheads": "kv_heads", "intermediatesize": "ffn", "ffnhiddensize": "ffn",
        "dff": "ffn", "numexperts": "experts", "numlocalexperts": "experts", "numexpertspertok": "top_k",
    },
    "optimizer": {
        "adam8bit": "adamw-8bit", "adamw8bit": "adamw-8bit", "adamwbnb8bit": "adamw-8bit", "bnbadam8bit": "adamw-8bit",
        "fusedadam": "adamw", "adamwtorch": "adamw", "adamwtorchfused": "adamw",
        "adamwtorch8bit": "adamw-8bit-torchao", "aoadamw8bit": "adamw-8bit-torchao", "lion32bit": "lion",
        "adamwtorch4bit": "adamw-4bit-torchao", "aoadamw4bit": "adamw-4bit-torchao", "galoreadamw": "galore",
        "aoadamwfp8": "adamw-fp8-torchao", "schedulefree": "schedule-free-adamw",
        "cpuadam": "adamw", "deepspeedcpuadam": "adamw", "momentum": "sgd-momentum", "distadam": "adamw",
    },
    "pipeline schedule": {
        "zerobubble": "zb-h1", "zb": "zb-h1", "zbvzerobubble": "zb-v", "interleavedzerobubble": "zb-v",
        "interleaved1f1b": "interleaved", "pipedreamflush": "1f1b", "dapple": "1f1b", "dualpipev": "dualpipe-v",
        "fillanddrain": "gpipe", "filldrain": "gpipe", "vzb": "zb-v",
    },
    "recompute": {"block": "full", "uniform": "full", "all": "full", "true": "full", "attention": "selective"},
    "offload": {"cpu": "optimizer", "param": "parameters", "params": "parameters", "states": "optimizer"},
    "cluster": {
        "p4d": "aws-p4d", "p4d24xlarge": "aws-p4d", "p5": "aws-p5", "p548xlarge": "aws-p5", "gb200": "gb200-nvl72",
        "nvl72": "gb200-nvl72", "mi300x": "mi300x-8", "trn2": "aws-trn2", "trn248xlarge": "aws-trn2", "g5": "aws-g5",
        "g548xlarge": "aws-g5", "g6": "aws-g6", "g648xlarge": "aws-g6", "trillium": "tpu-v6e", "tpu7x": "tpu-v7",
        "ironwood": "tpu-v7",
    },
}  # fmt: skip
"""What a value is of -> the value, without punctuation -> the one to give instead."""


def bare(word: str) -> str:
    """`word` in small letters without punctuation: `Llama-4_Scout` is `llama4scout`."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def architecture(name: str) -> str | None:
    """Why a model of that name or model_type is not priced, None when nothing is known of it."""
    family = max((one for one in ARCHITECTURES if _belongs(name.lower(), one)), key=len, default=None)
    return None if family is None else ARCHITECTURES[family]


def _belongs(name: str, family: str) -> bool:
    """Whether `name` begins with the family: `Llama-4-Scout` is a llama4, and neither `llama-40` nor `llama-7b` is.

    Letters go on only after a long name: `vit` begins many words.
    """
    match = re.match(PUNCTUATION.join(family), name)
    after = "" if match is None else name[match.end() : match.end() + 1]
    another = (after.isdigit() and family[-1].isdigit()) or (after.isalpha() and len(family) < SHORTEST)
    return match is not None and not another
