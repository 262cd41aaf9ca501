"""Latency, bandwidth and reduction rate of links from measured times, with intervals, protocol changes and outliers."""

from lockstep.measure.fit.cluster_file import UNKNOWN, cluster_yaml, link_rate_Bps, measured_level
from lockstep.measure.fit.fit import LinkFit, Segment, fit_link
from lockstep.measure.fit.points import Hosts, Point, Points
from lockstep.measure.fit.read import read_points, read_series

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
