"""Latency, bandwidth and reduction rate of links from measured times, with intervals, protocol changes and outliers."""

from lockstep.run.fit.cluster_file import UNKNOWN, cluster_yaml, link_rate_Bps, measured_level
from lockstep.run.fit.fit import LinkFit, Segment, fit_link
from lockstep.run.fit.points import Hosts, Point, Points
from lockstep.run.fit.read import read_points, read_series

__all__ = [
    "UNKNOWN",
    "Hosts",
    "LinkFit",
    "Point",
    "Points",
    "Segment",
    "cluster_yaml",
    "fit_link",
    "link_rate_Bps",
    "measured_level",
    "read_points",
    "read_series",
]
