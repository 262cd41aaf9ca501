"""Ways to train one problem on one cluster, from steps to seconds and bytes, one file each.

Each way gives a loss after every update; draws of the workers' times and the price of the link, the same for all ways,
give every update the second at which it is done and the bytes that a worker has sent by then.
"""

from lockstep.learn.lab.race.compressed import MEMORY_PASSES, compress_s, compressed
from lockstep.learn.lab.race.course import Arrival, Course, Leg, local
from lockstep.learn.lab.race.server import Server, served

__all__ = ["MEMORY_PASSES", "Arrival", "Course", "Leg", "Server", "compress_s", "compressed", "local", "served"]
