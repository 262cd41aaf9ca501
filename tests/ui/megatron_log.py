"""A log of Megatron-LM that begins with its arguments."""

ARGUMENTS = {
    "num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32, "num_query_groups": 8,
    "seq_length": 8192, "vocab_size": 128256, "swiglu": True, "normalization": "RMSNorm", "bf16": True,
    "micro_batch_size": 1, "global_batch_size": 64, "tensor_model_parallel_size": 2, "sequence_parallel": True,
    "pipeline_model_parallel_size": 2, "world_size": 16, "untie_embeddings_and_output_weights": True,
    "add_bias_linear": False,
}  # fmt: skip
MEGATRON = "".join(f"  {name} {'.' * (48 - len(name))} {value}\n" for name, value in ARGUMENTS.items()) + "".join(
    f" iteration {step:8}/ 1000 | elapsed time per iteration (ms): 9000.5 | global batch size: 64 |\n"
    for step in range(1, 40)
)
