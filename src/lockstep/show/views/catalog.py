"""`lockstep catalog`: the models, devices, clusters, links, stacks and optimizers of Lockstep, and their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.units import format_bandwidth, format_count, format_flops, format_frac, format_size, format_time
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import make_figure
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.show.verbs.catalog import Catalog


Row = Mapping[str, Any]
HOST = ("launch_s", "step_s", "recompute_host_s")
"""What a stack's software costs on the host."""


def render(found: Catalog, out: Console) -> None:
    """Prints every shelf of the catalog that was asked for."""
    out.print(", ".join(f"{len(rows)} {name}" for name, rows in found.shelves.items()) + "; all sources with --json")
    for name, rows in found.shelves.items():
        heading(out, name.capitalize())
        _SHELVES[name](rows, out)


def _models(rows: Sequence[Row], out: Console) -> None:
    titles = [("name", "left"), ("parameters", "right"), ("active", "right"), ("layers", "right"), ("hidden", "right")]
    titles += [("positions", "right"), ("source", "line")]
    body = (
        (
            row["name"],
            format_count(row["parameters"]),
            format_count(row["active_parameters"]) if row["active_parameters"] != row["parameters"] else "",
            str(row.get("layers", "")),
            str(row.get("hidden", "")),
            str(row.get("max_positions", "")),
            row["source"],
        )
        for row in rows
    )
    indented(out, table(titles, body))


def _devices(rows: Sequence[Row], out: Console) -> None:
    titles = [
        ("name", "left"),
        ("memory", "right"),
        ("bandwidth", "right"),
        ("dense peak", "right"),
        ("format", "left"),
    ]
    titles += [("efficiency", "left"), ("source", "line")]
    body = []
    for row in rows:
        dtype = "bf16" if "bf16" in row["peak_flops"] else "fp16"
        peak = row["peak_flops"].get(dtype)
        rate = format_flops(peak) if peak else ""
        memory, bandwidth = format_size(row["memory_B"]), format_bandwidth(row["memory_bandwidth_Bps"])
        source = _source(row, f"peak_flops.{dtype}")
        body.append((row["name"], memory, bandwidth, rate, dtype, row["efficiency"]["kind"], source))
    indented(out, table(titles, body))


def _clusters(rows: Sequence[Row], out: Console) -> None:
    titles = [("name", "left"), ("device", "left"), ("levels", "line"), ("$/h", "right")]
    titles += [("source", "line")]
    body = []
    for row in rows:
        levels = ", ".join(_level(level) for level in row["levels"])
        price = row["price_per_hour_usd"]
        source = next((one["text"] for one in row["provenance"].values()), "")
        body.append((row["name"], row["device"], levels, "" if price is None else f"{price:.2f}", source))
    indented(out, table(titles, body))


def _level(level: Row) -> str:
    """`fabric ndr x8`: level and link, with the number of links per child where there are several."""
    links = level["links_per_child"]
    return f"{level['name']} {level['link']['name']}" + (f" x{links}" if links > 1 else "")


def _links(rows: Sequence[Row], out: Console) -> None:
    numbers = [(title, "right") for title in ("latency", "start", "wire rate", "achieved")]
    titles = [("name", "left"), *numbers, ("source", "line")]
    body = (
        (
            row["name"],
            format_time(row["latency_s"]),
            format_time(row["start_s"]) if row["start_s"] else "",
            format_bandwidth(row["bandwidth_Bps"]),
            format_frac(row["achieved_frac"]),
            _source(row, "bandwidth_Bps"),
        )
        for row in rows
    )
    indented(out, table(titles, body))


def _source(row: Row, key: str) -> str:
    """Kind and text of the source of one number."""
    source = row["provenance"].get(key)
    return f"{source['kind']}: {source['text']}" if source else ""


def _stacks(rows: Sequence[Row], out: Console) -> None:
    titles = [("name", "left"), ("attention", "left"), ("software, its ways, habits and switches", "text")]
    body = (
        (
            row["name"],
            ", ".join(row["attention"]) or "unfused",
            f"{row['software']}, {row['release']}"
            + "".join(f"; {word} {value}" for word, value in row["switches"].items()),
        )
        for row in rows
    )
    indented(out, table(titles, body))
    _hosts(rows, out)


def _hosts(rows: Sequence[Row], out: Console) -> None:
    """What software costs on the host, the most common last."""
    alike: dict[tuple[float, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(row[name] for name in HOST), []).append(row)
    for times, same in sorted(alike.items(), key=lambda pair: len(pair[1])):
        whose = "all others" if 2 * len(same) > len(rows) else ", ".join(row["name"] for row in same)
        launch, step, layer = map(format_time, times)
        said = f"host of {whose}: {launch} per launch, {step} per step ({same[0]['kind']})"
        out.print(Text(f"  {said}, {layer} per recomputed layer (assumed)", style="dim"))


def _optimizers(rows: Sequence[Row], out: Console) -> None:
    numbers = [(f"B/{what}", "right") for what in ("master", "matrix", "other")]
    titles = [("name", "left"), *numbers, ("by tensor", "left"), ("source", "text")]
    body = (
        (
            row["name"],
            *(f"{row[each]:.4g}" for each in ("master_B", "matrix_states_B", "other_states_B")),
            "yes" if row["by_tensor"] else "",
            row["source"],
        )
        for row in rows
    )
    indented(out, table(titles, body))


_SHELVES = {
    "models": _models,
    "devices": _devices,
    "clusters": _clusters,
    "links": _links,
    "stacks": _stacks,
    "optimizers": _optimizers,
}


def plot_catalog(found: Catalog) -> Figure:
    """Devices by rate, memory and bandwidth, or models by parameters. Raises BadInput for other shelves."""
    if "devices" in found.shelves:
        return _plot_devices(found.shelves["devices"])
    if "models" in found.shelves:
        return _plot_models(found.shelves["models"])
    raise BadInput("the shelves devices and models have a picture", "--plot")


def _plot_devices(devices: Sequence[Row]) -> Figure:
    """Three bars per device, the fastest on top."""
    rates = {row["name"]: row["peak_flops"].get("bf16") or row["peak_flops"].get("fp16") or 0.0 for row in devices}
    ranked = sorted(devices, key=lambda row: -rates[row["name"]])

    def of(values: Sequence[float], title: str, colour: str, named: bool) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            bars.plain(axes, [row["name"] for row in ranked], values, _short, colours=colour)
            axes.set_xlabel(title)
            if not named:
                axes.set_yticklabels([])

        return draw

    draws = (
        of([rates[row["name"]] / 1e12 for row in ranked], "dense peak in half precision, TFLOP/s", bars.BLUE, True),
        of([row["memory_B"] / 2.0**30 for row in ranked], "memory, GiB", bars.GREEN, False),
        of([row["memory_bandwidth_Bps"] / 1e9 for row in ranked], "memory bandwidth, GB/s", bars.ORANGE, False),
    )
    return make_figure(f"{len(ranked)} devices", *draws, size=(13.0, 1.4 + 0.2 * max(8, len(ranked))))


def _short(value: float) -> str:
    """Four digits, and thousands whole."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _plot_models(models: Sequence[Row]) -> Figure:
    """Parameters of every model, and how many of them work on a token."""
    ranked = sorted(models, key=lambda row: -row["parameters"])

    def draw(axes: Axes) -> None:
        for key, colour, name in (("parameters", bars.BLUE, "all"), ("active_parameters", bars.ORANGE, "active")):
            shown = [place for place, row in enumerate(ranked) if key == "parameters" or row[key] != row["parameters"]]
            values = [ranked[place][key] for place in shown]
            axes.plot(values, shown, "o", color=colour, markersize=4, label=name)
        bars.rows(axes, [row["name"] for row in ranked])
        axes.set(xscale="log", xlabel="parameters")
        axes.legend(fontsize=8, frameon=False, loc="upper left")

    return make_figure(f"{len(ranked)} models", draw, size=(8.0, 1.4 + 0.16 * max(8, len(ranked))))


COMMAND = Command(
    examples=("lockstep catalog models", "lockstep catalog devices --json"),
    render=render,
    picture=plot_catalog,
    lists=False,
)
