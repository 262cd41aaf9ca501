"""Devices, links and clusters: what the machines can do, with a source for every number."""

from lockstep.hardware.attention import AttentionKernel as AttentionKernel
from lockstep.hardware.catalog import cluster as cluster
from lockstep.hardware.catalog import clusters as clusters
from lockstep.hardware.catalog import device as device
from lockstep.hardware.catalog import devices as devices
from lockstep.hardware.catalog import link as link
from lockstep.hardware.catalog import links as links
from lockstep.hardware.catalog import machines as machines
from lockstep.hardware.cluster import Cluster as Cluster
from lockstep.hardware.cluster import Level as Level
from lockstep.hardware.device import DTYPES as DTYPES
from lockstep.hardware.device import Device as Device
from lockstep.hardware.device import Efficiency as Efficiency
from lockstep.hardware.device import efficiency as efficiency
from lockstep.hardware.link import Host as Host
from lockstep.hardware.link import Link as Link
from lockstep.hardware.link import Switch as Switch
from lockstep.hardware.shipped import read_catalog as read_catalog
from lockstep.hardware.source import Source as Source

__all__ = [
    "DTYPES",
    "AttentionKernel",
    "Cluster",
    "Device",
    "Efficiency",
    "Host",
    "Level",
    "Link",
    "Source",
    "Switch",
    "cluster",
    "clusters",
    "device",
    "devices",
    "efficiency",
    "link",
    "links",
    "read_catalog",
]
