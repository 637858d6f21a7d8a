"""Objects as arrays and plain JSON values, and back to the same bits.

Only classes that the reader names are made, from their fields alone, so that a file from elsewhere can at worst be
refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


class Packer:
    """Takes objects apart, and puts them together again.

    What is packed may be made of None, booleans, numbers, texts, tuples, lists, dictionaries, arrays, and the
    dataclasses and named tuples given. Fields that do not count in comparisons only remember what can be made again,
    and are left out.

    Parameters
    ----------
    classes
        The dataclasses and named tuples that may occur.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        self._classes = {kind.__name__: kind for kind in classes}

    def pack(self, value: object, shared: Mapping[str, object]) -> tuple[Any, dict[str, np.ndarray]]:
        """Return a JSON value and the arrays it refers to; an array that occurs twice is kept once.

        Parameters
        ----------
        value
            The object.
        shared
            Objects that the reader will have as well, by name: of them only the name is kept.

        Raises
        ------
        TypeError
            Something in it is of another class.
        """
        job = _Packing(self._classes, shared)
        return job.pack(value), job.arrays

    def unpack(self, plain: Any, arrays: Mapping[str, np.ndarray], shared: Mapping[str, object]) -> Any:
        """Return the object, given what `pack` returned and the shared objects.

        Raises
        ------
        ValueError
            The value was not packed by a packer with the same classes and shared objects.
        """
        try:
            return self._unpack(plain, arrays, shared)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not what was packed: {error}") from None

    def _unpack(self, plain: Any, arrays: Mapping[str, np.ndarray], shared: Mapping[str, object]) -> Any:
        if not isinstance(plain, dict):
            return plain

        def inner(part: Any) -> Any:
            return self._unpack(part, arrays, shared)

        if "class" in plain:
            kind = self._classes[plain["class"]]
            return kind(**{name: inner(part) for name, part in plain["fields"].items()})
        ((kind_of, content),) = plain.items()
        if kind_of == "shared":
            return shared[content]
        if kind_of == "array":
            return arrays[content]
        if kind_of == "scalar":
            return arrays[content][()]
        if kind_of == "dict":
            return {inner(key): inner(part) for key, part in content}
        return {"tuple": tuple, "list": list}[kind_of](inner(part) for part in content)


class _Packing:
    """One object being taken apart, and its arrays so far."""

    def __init__(self, classes: Mapping[str, type], shared: Mapping[str, object]) -> None:
        self._classes = classes
        self._shared = {id(known): name for name, known in shared.items()}
        self._names: dict[int, str] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def pack(self, value: object) -> Any:
        """The JSON value."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) in self._shared:
            return {"shared": self._shared[id(value)]}
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return {"array": self._named(value)}
        if isinstance(value, np.generic):
            return {"scalar": self._named(np.asarray(value))}
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
            return {type(value).__name__: [self.pack(part) for part in value]}
        if isinstance(value, dict):
            return {"dict": [[self.pack(part) for part in item] for item in value.items()]}
        if self._classes.get(type(value).__name__) is not type(value):
            raise TypeError(f"{type(value).__name__} is not among the classes that can be packed")
        fields = {name: self.pack(getattr(value, name)) for name in _fields(type(value))}
        return {"class": type(value).__name__, "fields": fields}

    def _named(self, array: np.ndarray) -> str:
        if id(array) not in self._names:
            self._names[id(array)] = str(len(self.arrays))
            self.arrays[self._names[id(array)]] = array  # which keeps it alive, and its id its own
        return self._names[id(array)]


def _fields(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(item.name for item in dataclasses.fields(kind) if item.compare)
    return tuple(kind._fields)  # type: ignore[attr-defined]
