"""A good question for every verb about programs."""

LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
COMMANDS: dict[str, tuple[str, ...]] = {
    "messages": ("messages", "--workers", "8", "--params", "25M"),
    "collective": ("collective", "all-reduce", "--ranks", "12", "--size", "10MB", *LINK, "--simulate"),
    "crossover": ("crossover", "all-reduce", "--ranks", "8", "--between", "ring,tree", *LINK),
    "pipeline": ("pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "zb-h1"),
    "overlap": (
        "overlap", "--layers", "24", "--backward", "120ms", "--gradients", "700MB", "--ranks", "64", *LINK, "--sweep",
    ),
    "stragglers": ("stragglers", "--workers", "16", "--law", "lognormal:mean=50ms,cv=0.2", "--mitigation", "backup:2"),
    "balance": ("balance", "--speeds", "4x310,4x125", "--batch", "1024"),
    "experts": (
        "experts", "--experts", "16", "--top-k", "2", "--tokens", "4096", "--skew", "0.6", "--capacity-factor", "1.25",
        "--ranks", "8", *LINK,
    ),
    "tensor": (
        "tensor", "--ranks", "8", "--hidden", "1024", "--heads", "16", "--seq", "512", "--flops", "100T", *LINK,
        "--run",
    ),
    "checkpoint": (
        "checkpoint", "--mtbf", "6h", "--write", "5min", "--restart", "10min", "--async", "20%", "--simulate",
    ),
}  # fmt: skip
