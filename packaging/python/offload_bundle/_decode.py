"""Turns JSON into dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Any, Callable, TypeVar, cast

T = TypeVar("T")


class Report:
    """The report of a subcommand."""

    status: int = 0
    """The exit status of the subcommand: 0, or 1 if a file could not be read or a check failed."""

    @property
    def ok(self) -> bool:
        """Whether all files could be read and all checks passed."""
        return self.status == 0


def decode(of_type: type[T], value: Any) -> T:
    """Returns a value of JSON as a dataclass. Fields that the class does not have are left out: a later release of the program
    may add some."""
    return cast(T, _decoder(cast(Any, of_type))(value))


@functools.lru_cache(maxsize=None)
def _decoder(of_type: Any) -> Callable[[Any], Any]:
    arguments = typing.get_args(of_type)
    if typing.get_origin(of_type) is typing.Union:
        inner = _decoder(arguments[0])
        return lambda value: None if value is None else inner(value)
    if typing.get_origin(of_type) is list:
        element = _decoder(arguments[0])
        return lambda value: [element(item) for item in value]
    if not dataclasses.is_dataclass(of_type) or not isinstance(of_type, type):
        return lambda value: value
    hints = typing.get_type_hints(of_type)
    fields = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(of_type)}

    def instance(value: dict[str, Any]) -> Any:
        return of_type(**{name: fields[name](item) for name, item in value.items() if name in fields})

    return instance
