"""MaxText on TPUs as Google publishes it: "expected performance" on v4, v5e and v5p, and recipes on v6e (Trillium).

`TABLE`: TFLOP/s per chip of one to 32 slices. A decoder of scale 2^n has 2,048 x 2^e hidden, 16 x 2^h heads of 128, a
gated feed-forward of 7,168 x 2^h and 16 x 2^l layers, doubled in the order h, e, l (pyconfig.py:
get_individual_scales); those of v4 are of 2023: heads of 256 and an ungated feed-forward (22b.sh, 52b.sh). All come out
within 3 % of the parameters in their names. A step of b sequences of s tokens per chip then takes

    step_time_s = (6 N + 12 l a d s) b s / rate        N parameters, l layers, a heads of width d (full attention)

which is how MaxText counts (max_utils.py: calculate_tflops_training_per_device, citing arXiv 2204.02311, appendix B).
Parameters are sharded over a slice and repeated over slices; a `tensor` axis cuts the stream between layers too
(base.yml: activation_embed). Remat policies: `full`; `minimal` keeps outputs of products; `qkv_proj_offloaded` keeps
queries, keys and values in host memory and recomputes the rest, the output projection too.

`RECIPES`: seconds per step, printed. Layer inputs and projections around attention wait in host memory. The batch is
that of the printed rate: of Llama 2 70B it is 2 sequences per chip where its file says 3.

Nothing was fitted to either; the curve of TPUs is assumed. Left out, by `left_out` and `recipes_left_out`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.dgxc import SAVED_QKV
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import Attention, Mlp, Transformer, model, parameters
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "AI-Hypercomputer/maxtext, src/maxtext/configs/tpu: v4, v5e and v5p"
RECIPES_SOURCE = "AI-Hypercomputer/tpu-recipes@c8cfe2f, training/trillium: dense models"
FILE, RECIPES_FILE = "maxtext_tpu.csv", "tpu_recipes.csv"
SEQ, VOCAB = 2048, 32000
BASE = {"hidden": 2048, "heads": 16, "ffn": 7168, "layers": 16}
OF_2023 = {22: (48, 6144, 24, 24576), 52: (32, 12288, 32, 49152)}
"""Layers, hidden, heads and feed-forward width by billions of parameters."""
REMAT: dict[str, Json] = {
    "full": {"recompute": "full"},
    "minimal": {"recompute": "selective", "modules": ("core_attn", "context", "layernorm", "mlp_act")},
    "qkv_proj_offloaded": {"recompute": "selective", "modules": SAVED_QKV, "offload_layers": "all"},
}


def cases() -> tuple[Case, ...]:
    """One case per row whose batch and sharding are printed."""
    return tuple(_case(row) for row in read_rows(FILE) if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def recipe_cases() -> tuple[Case, ...]:
    """One case per recipe of a dense model."""
    return tuple(_recipe_case(row) for row in read_rows(RECIPES_FILE) if not _recipe_why_not(row))


def recipes_left_out() -> Counter[str]:
    """How many recipes are left out, by reason."""
    return Counter(why for row in read_rows(RECIPES_FILE) if (why := _recipe_why_not(row)))


def decoder(billions: int) -> Transformer:
    """MaxText's default decoder of so many billions of parameters."""
    if billions in OF_2023:
        layers, hidden, heads, ffn = OF_2023[billions]
        head_dim, mlp = 256, Mlp(ffn=ffn, gated=False, activation="relu")
    else:
        cycles, more = divmod(billions.bit_length() - 1, 3)
        wide = 2 ** (cycles + (more > 0))
        layers, hidden = BASE["layers"] * 2**cycles, BASE["hidden"] * 2 ** (cycles + (more > 1))
        heads, head_dim, mlp = BASE["heads"] * wide, 128, Mlp(ffn=BASE["ffn"] * wide)
    return Transformer(
        name=f"maxtext-{billions}b",
        layers=layers,
        hidden=hidden,
        vocab=VOCAB,
        attention=Attention(heads=heads, kv_heads=heads, head_dim=head_dim),
        mlp=mlp,
        positions="rotary",
        max_positions=SEQ,
        norm="rmsnorm",
        tied_embeddings=False,
    )


def slices(generation: str, devices: int, each: int) -> Cluster:
    """Slices of `each` chips, joined by the data centre network where there are several."""
    if devices == each:
        return cluster(f"tpu-{generation}", gpus=devices)
    found = cluster(f"tpu-{generation}-pods", gpus=devices)
    host, pod, pods = found.levels
    levels = (host, replace(pod, size=each // host.size), replace(pods, size=devices // each, links_per_child=each))
    return replace(found, levels=levels)


def _why_not(row: dict[str, str]) -> str:
    return "" if row["per_device_batch"] else "batch and sharding not printed"


def _recipe_why_not(row: dict[str, str]) -> str:
    return "experts padded to 1.25 times their share" if row["model"].startswith("mixtral") else ""


def _case(row: dict[str, str]) -> Case:
    devices, each, tp = int(row["n_chips"]), int(row["chips_per_slice"]), int(row["ici_tensor"] or 1)
    found, seq, remat = decoder(int(row["n_params_B"])), int(row["seq_len"] or SEQ), dict(REMAT[row["remat"]])
    attention, batch = found.attention, int(row["per_device_batch"])
    attended = 12 * found.layers * attention.heads * attention.head_dim * seq
    flops = (6 * parameters(found).total + attended) * batch * seq
    layout = Layout(
        dp=devices // tp,
        tp=tp,
        micro_batch=batch * tp,
        zero=3,
        shard=each // tp if each < devices else 0,
        sequence_parallel=tp > 1,
        recompute=str(remat.pop("recompute")),
    )
    recipe = Recipe.by(
        "maxtext", seq=seq, batch=batch * devices, recompute_modules=tuple(remat.pop("modules", SAVED_QKV)), **remat
    )
    return Case(
        row=f"{row['row_id']} {row['model']} {row['n_slices']} x {row['hardware']}",
        quantity="step_time_s",
        measured=flops / (float(row["tflops_per_chip"]) * 1e12),
        job=Job(found, recipe, devices),
        cluster=slices(row["hardware"].split()[1].split("-")[0], devices, each),
        layout=layout,
        predict=step_time_s,
    )


def _recipe_case(row: dict[str, str]) -> Case:
    """Where the layer's input alone is offloaded, everything else is recomputed."""
    devices, each = int(row["n_chips"]), int(row["n_chips"]) // int(row["n_slices"])
    whole = "query_proj" not in row["remat"] and "qkv" not in row["remat"]
    recipe = Recipe.by(
        "maxtext",
        seq=int(row["seq_len"]),
        batch=int(row["gbs_seqs_derived"]),
        recompute_modules=tuple(one for one in SAVED_QKV if one not in row["remat"]),
        offload_layers="all",
    )
    layout = Layout(
        dp=devices,
        micro_batch=int(row["gbs_seqs_derived"]) // devices,
        zero=3,
        recompute="full" if whole else "selective",
    )
    name = row["model"].replace("llama3.1-405b", "llama3-405b")
    return Case(
        row=f"{row['row_id']} {row['model']} x{devices}",
        quantity="step_time_s",
        measured=float(row["step_time_s"]),
        job=Job(model(name), recipe, devices),
        cluster=slices("v6e", devices, each),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("maxtext_tpu", "step_time_s", SOURCE, 0.08, cases)
RECIPES = Table("tpu_recipes", "step_time_s", RECIPES_SOURCE, 0.05, recipe_cases)
