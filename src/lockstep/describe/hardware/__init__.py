"""Devices, links and clusters: what the machines can do, with a source for every number."""

from lockstep.describe.hardware.attention import AttentionKernel as AttentionKernel
from lockstep.describe.hardware.catalog import cluster as cluster
from lockstep.describe.hardware.catalog import clusters as clusters
from lockstep.describe.hardware.catalog import device as device
from lockstep.describe.hardware.catalog import devices as devices
from lockstep.describe.hardware.catalog import link as link
from lockstep.describe.hardware.catalog import links as links
from lockstep.describe.hardware.catalog import machines as machines
from lockstep.describe.hardware.cluster import Cluster as Cluster
from lockstep.describe.hardware.cluster import Level as Level
from lockstep.describe.hardware.device import DTYPES as DTYPES
from lockstep.describe.hardware.device import Device as Device
from lockstep.describe.hardware.device import Efficiency as Efficiency
from lockstep.describe.hardware.device import efficiency as efficiency
from lockstep.describe.hardware.link import Host as Host
from lockstep.describe.hardware.link import Link as Link
from lockstep.describe.hardware.link import Switch as Switch
from lockstep.describe.hardware.shipped import read_catalog as read_catalog
from lockstep.describe.hardware.source import Source as Source

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
