"""`dataclass`: the standard library's, whose methods are made when they are first used; and its other names.

`dataclasses.dataclass` compiles six methods for every class while its module is imported. A command imports some 270
such classes, makes instances of half of them, and compares or prints few, so that a quarter of the time of a short
command went into methods that nothing called. Here a class is given its fields and slots at once, and in place of each
method a descriptor, which lets the standard library make that method for a class of the same fields, and takes it over.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, field, fields, replace
from typing import TYPE_CHECKING

__all__ = ["MISSING", "asdict", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable

    MAKES = {"__init__": "init", "__repr__": "repr", "__eq__": "eq", "__hash__": "eq"}
    """The option of `dataclasses.dataclass` that makes a method."""

    def dataclass(cls: type | None = None, *, order: bool = False, **options: bool) -> object:
        """A class, or a decorator of classes, with the options of `dataclasses.dataclass`."""
        decorate = dataclasses.dataclass(order=True, **options) if order else lambda plain: _lazy(plain, **options)
        return decorate if cls is None else decorate(cls)

    def _lazy(plain: type, *, frozen: bool = False, repr: bool = True, eq: bool = True, **options: bool) -> type:
        own = plain.__dict__
        hashed = own.get("__hash__") is not None
        wanted = {"__init__": True, "__repr__": repr and "__repr__" not in own, "__eq__": eq and "__eq__" not in own}
        wanted["__hash__"] = eq and frozen and not hashed
        derived = any("__dataclass_fields__" in vars(base) for base in plain.__mro__[1:])
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen and derived, **options)(plain)
        # What the standard decorator asks of a base when others derive from it.
        cls.__dataclass_params__.frozen = frozen
        if eq and not frozen and not hashed:
            cls.__hash__ = None
        if frozen and not derived:
            _freeze(cls)
        for name in (name for name, is_wanted in wanted.items() if is_wanted):
            setattr(cls, name, _Later(cls, name, frozen))
        return cls

    class _Later:
        """Stands for a method until it is looked up."""

        __slots__ = ("cls", "frozen", "name")

        def __init__(self, cls: type, name: str, frozen: bool) -> None:
            self.cls, self.name, self.frozen = cls, name, frozen

        def __get__(self, instance: object, owner: type | None = None) -> Callable[..., object]:
            if self.cls.__dict__[self.name] is self:
                setattr(self.cls, self.name, _method(self.cls, self.name, self.frozen))
            return self.cls.__dict__[self.name].__get__(instance, owner)

    def _method(cls: type, name: str, frozen: bool) -> Callable[..., object]:
        """The method that the standard library makes for the fields of `cls`."""
        columns = fields(cls)
        body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__ or ""}
        body["__annotations__"] = {one.name: one.type for one in columns}
        body |= {one.name: one for one in columns}
        if hasattr(cls, "__post_init__"):
            body["__post_init__"] = None
        made = {option: option == MAKES[name] for option in MAKES.values()}
        made["frozen"] = frozen and name != "__repr__"
        # A default that no argument changes is set by a method where slots leave no place for it in the class.
        made["slots"] = "__slots__" in cls.__dict__ and not all(one.init for one in columns)
        return dataclasses.dataclass(**made)(type(cls.__name__, (), body)).__dict__[name]

    def _freeze(cls: type) -> None:
        """Refuses changes, and lets copies and pickles set slots all the same, as the standard library does."""
        cls.__setattr__, cls.__delattr__ = _refuse_set, _refuse_delete
        if "__slots__" in cls.__dict__:
            for name, function in (("__getstate__", _state), ("__setstate__", _restore)):
                if name not in cls.__dict__:
                    setattr(cls, name, function)

    def _refuse_set(self: object, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self: object, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: object) -> list[object]:
        return [getattr(self, one.name) for one in fields(self)]

    def _restore(self: object, state: list[object]) -> None:
        for one, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, one.name, value)
