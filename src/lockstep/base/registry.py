"""`Registry`: the records of one kind by name, Lockstep's own and those that other installed packages offer.

A package offers a record by an entry point: the group is the registry's, the name is the record's.

    [project.entry-points."lockstep.schedules"]
    my-schedule = "my_package.my_schedule:SCHEDULE"

Entry points are read when a name is not one of Lockstep's, or when names are listed; a record is imported when it is
used or when records are listed. Lockstep's own come first and are never replaced.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockstep.base.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class PluginWarning(UserWarning):
    """What another package offers cannot be used, and is left out of a list."""


class Registry(Generic[T]):
    """Records of one kind by name."""

    def __init__(
        self, what: str, group: str, kind: type[T], name_of: Callable[[Any], str] = lambda record: str(record.name)
    ) -> None:
        """`what` a record is in messages, the `group` of its entry points, its type, its name in this registry."""
        self.what, self.group, self.kind, self.name_of = what, group, kind, name_of
        self.own: dict[str, T] = {}
        """Lockstep's own records."""
        self._loaded: dict[str, T] = {}

    def register(self, record: T) -> T:
        """Adds one of Lockstep's own records and returns it."""
        name = self.name_of(record)
        if name in self.own:
            raise ValueError(f"internal: {self.what} {name} is registered twice")
        self.own[name] = record
        return record

    def arrange(self, first: str) -> None:
        """Puts its own records in the order of some names, which people see; the others follow by name."""
        order = dict.fromkeys((*first.split(), *sorted(self.own)))
        self.own = {name: self.own[name] for name in order}

    def names(self) -> tuple[str, ...]:
        """All names: Lockstep's own in their order, then those of other packages, which are not imported."""
        return tuple(dict.fromkeys((*self.own, *self._offered)))

    def __contains__(self, name: str) -> bool:
        return name in self.own or name in self._offered

    def get(self, name: str, where: str | None = None) -> T:
        """The record called `name`. Raises UnknownName, and BadInput for one that its package cannot give."""
        found = self.own.get(name)
        if found is not None:
            return found
        if name not in self:
            raise UnknownName(self.what, name, self.names(), where)
        if name not in self._loaded:
            self._loaded[name] = self._load(name, where)
        return self._loaded[name]

    def every(self) -> tuple[T, ...]:
        """All records; warns of those that their packages cannot give, and leaves them out."""
        found = list(self.own.values())
        for name, points in self._offered.items():
            try:
                if name in self.own:
                    raise BadInput(f"{_from(points)} offers the {self.what} {name!r}, which Lockstep has itself")
                found.append(self.get(name))
            except BadInput as error:
                warnings.warn(f"{error}; left out", PluginWarning, stacklevel=2)
        return tuple(found)

    @cached_property
    def _offered(self) -> dict[str, list[EntryPoint]]:
        """Entry points of the group by name."""
        # Importing this takes longer than many an answer, and most need no name of another package.
        from importlib.metadata import entry_points

        offered: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            offered.setdefault(point.name, []).append(point)
        return dict(sorted(offered.items()))

    def _load(self, name: str, where: str | None) -> T:
        """Imports the record that a package offers under a name."""
        points = self._offered[name]
        said = f"the {self.what} {name!r} of {_from(points)}"
        if len(points) > 1:
            raise BadInput(f"{said} is ambiguous; uninstall all of them but one", where)
        try:
            found = points[0].load()
        except Exception as error:
            raise BadInput(f"{said} cannot be imported: {type(error).__name__}: {error}", where) from error
        if not isinstance(found, self.kind):
            raise BadInput(f"{said} must be a {self.kind.__name__}, got {type(found).__name__}", where)
        if self.name_of(found) != name:
            raise BadInput(f"{said} calls itself {self.name_of(found)!r}; its entry point must have that name", where)
        return found


def import_all(package: str) -> None:
    """Imports every module in the folder of a package, so that a file joins by lying there."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


def _from(points: list[EntryPoint]) -> str:
    """The packages of some entry points, in words."""
    names = sorted(point.dist.name if point.dist is not None else point.module for point in points)
    return ("the package " if len(names) == 1 else "the packages ") + " and ".join(names)
