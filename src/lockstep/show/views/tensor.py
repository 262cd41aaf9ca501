"""`lockstep tensor`: one transformer layer on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_size, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure, times_on
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.price.tensor_layer import Policy, Row, TensorLayer
    from lockstep.simulate.parallel.tensor import Proof


_CHOSEN = "bold green"


def render(found: TensorLayer, out: Console) -> None:
    """Prints the layer."""
    row, shape = found.row, found.shape
    speed = f"{row.speedup:.3g} times as fast on {found.ranks:,} ranks as on one"
    said = f"{speed}, {format_frac(row.efficiency_frac)} of ideal" if found.ranks > 1 else "on one rank"
    out.print(Text(f"{format_time(row.time_s)} per layer, {said}", style="bold"))
    split = ", split by tokens too" if found.sequence_parallel else ""
    out.print(
        f"Width {shape.hidden:,}, {shape.heads:,} heads, feed-forward {shape.ffn:,}, "
        f"{shape.batch:,} x {shape.seq:,} tokens{split}."
    )
    heading(out, "One rank's layer")
    indented(out, table([("", "left"), ("forward", "right"), ("backward", "right")], _passes(found)))
    kept = f"{format_size(found.kept_B)} kept for the backward pass, {format_frac(found.kept_frac)} of one rank's"
    indented(out, Text(f"{format_size(found.weights_B)} of weights, {kept}"))
    indented(
        out, Text(f"{format_size(found.boundary_B)} to the next pipeline stage for a micro-batch, and as much back")
    )
    if found.params is not None and found.layers is not None and found.model_sent_B is not None:
        sent = f"a rank sends {format_size(found.model_sent_B)} for all of them"
        indented(out, Text(f"{found.layers:.4g} such layers have {format_count(found.params)} parameters; {sent}"))
    _policies(found, out)
    heading(out, "Ranks", f"overlap {found.overlap}, both passes")
    titles = ["ranks", "compute", "traffic", "exposed", "layer", "kept", "speed-up"]
    columns = [*((title, "right") for title in titles), ("of ideal", "left")]
    indented(out, table(columns, (_row(one, one is row) for one in found.rows)))
    if found.proof is not None:
        _proof(found.proof, out)
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _passes(found: TensorLayer) -> list[tuple[str, ...]]:
    """What does not depend on the overlap policy."""
    forward, backward = found.chosen.forward, found.chosen.backward
    sent = format_size(found.sent_B / 2)
    return [
        ("FLOPs", format_count(found.forward_flops), format_count(found.backward_flops)),
        ("computing", format_time(forward.compute_s), format_time(backward.compute_s)),
        ("traffic", format_time(forward.traffic_s), format_time(backward.traffic_s)),
        ("sent", sent, sent),
    ]


def _policies(found: TensorLayer, out: Console) -> None:
    """A line per overlap policy."""
    heading(out, "Overlap", "traffic forward + backward; room for more that would hide")
    titles = [("", "left"), ("exposed", "right"), ("hidden", "right"), ("room", "right"), ("layer", "right")]
    indented(out, table([*titles, ("", "left")], (_policy(one, one is found.chosen) for one in found.policies)))


def _policy(one: Policy, chosen: bool) -> list[str | Text]:
    pairs = ((getattr(one.forward, name), getattr(one.backward, name)) for name in ("exposed_s", "hidden_s", "slack_s"))
    told = [f"{format_time(first_s)} + {format_time(then_s)}" for first_s, then_s in pairs]
    style = _CHOSEN if chosen else ""
    return [
        Text(one.overlap, style=style), *told, Text(format_time(one.time_s), style=style), "chosen" if chosen else ""
    ]  # fmt: skip


def _row(one: Row, chosen: bool) -> list[str | Text]:
    times = (format_time(time_s) for time_s in (one.compute_s, one.traffic_s, one.exposed_s, one.time_s))
    style = _CHOSEN if chosen else ""
    return [
        Text(f"{one.ranks:,}", style=style), *times, format_size(one.kept_B),
        Text(f"{one.speedup:.3g}", style=style), bar(one.efficiency_frac),
    ]  # fmt: skip


def _proof(proof: Proof, out: Console) -> None:
    """What the run on numpy showed."""
    shape = proof.shape
    heading(out, "Run on numpy", f"ranks in process: {proof.ranks:,}; messages counted")
    size = "scaled down to width" if proof.scaled_down else "as asked: width"
    sizes = f"{size} {shape.hidden:,}, {shape.heads:,} heads, {shape.batch:,} x {shape.seq:,} tokens"
    near = f"equals the layer on one rank: no entry is off by more than {proof.tolerance_frac:g} of the largest"
    verdict = near if proof.equal else f"differs from the layer on one rank, by {proof.error_frac:.1e} of the largest"
    lines = [
        ("layer", sizes),
        ("result", verdict),
        ("sent per rank", f"{format_size(proof.sent_B)} counted, {format_size(proof.priced_B)} priced"),
    ]
    indented(out, table([("", "left"), ("", "text")], lines))


def plot_tensor(found: TensorLayer) -> Figure:
    """Seconds by number of ranks, and the speed-up."""
    rows = found.rows
    names = [f"{row.ranks:,}" for row in rows]
    places = list(range(len(rows)))

    def times(axes: Axes) -> None:
        traffic_s = [row.traffic_s for row in rows]
        compute_s = [row.compute_s for row in rows]
        axes.bar(places, compute_s, 0.6, color=PALETTE[0], label="computing")
        exposed_s = [row.exposed_s for row in rows]
        axes.bar(places, exposed_s, 0.6, bottom=compute_s, color=PALETTE[1], label="exposed traffic")
        axes.plot(places, traffic_s, "o--", color="black", markerfacecolor="white", label="all traffic, hidden or not")
        axes.set(xlabel="ranks", ylabel="layer, both passes")
        axes.set_xticks(places, names)
        axes.set_ylim(0, 1.08 * max(*traffic_s, *(row.time_s for row in rows)))
        times_on(axes.yaxis)
        axes.legend(fontsize=8, frameon=False)

    def speed(axes: Axes) -> None:
        axes.plot(places, [row.ranks for row in rows], ":", color="#999999", label="ideal")
        axes.plot(places, [row.speedup for row in rows], ".-", color=PALETTE[0], label="speed-up over one rank")
        asked = next(i for i, row in enumerate(rows) if row.ranks == found.ranks)
        axes.plot([asked], [found.row.speedup], "o", color=PALETTE[4], label=f"{found.ranks:,} ranks, as asked")
        axes.set_yscale("log", base=2)
        axes.set(xlabel="ranks", ylabel="speed-up")
        axes.set_xticks(places, names)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.legend(fontsize=8, frameon=False)

    shape = found.shape
    title = f"A layer {shape.hidden:,} wide, {shape.tokens:,} tokens, overlap {found.overlap}"
    return make_figure(title, times, speed, size=(10.0, 4.5))


COMMAND = Command(
    examples=(
        "lockstep tensor --ranks 8 --hidden 8192 --heads 64 --ffn 28672 --seq 4096 --latency 3us "
        "--bandwidth 300GB/s --flops 600T --run",
        "lockstep tensor --ranks 16 --hidden 12288 --heads 96 --seq 2048 -c dgx-h100:4 "
        "--sequence-parallel --overlap all --plot tensor.png",
    ),
    render=render,
    picture=plot_tensor,
    ok=lambda answer: answer.proof is None or answer.proof.equal,
    figures=("time_s", "speedup", "sent_B", "boundary_B", "kept_B", "model_sent_B"),
)
