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
    dataclasses and named tuples given.

    Parameters
    ----------
    classes
        The dataclasses and named tuples that may occur.
    shared
        Objects that reader and writer both have, by name: of them only the name is kept.
    """

    def __init__(self, classes: Iterable[type], shared: Mapping[str, object] | None = None) -> None:
        self._classes = {kind.__name__: kind for kind in classes}
        self.shared: dict[str, object] = dict(shared or {})

    def pack(self, value: object) -> tuple[Any, dict[str, np.ndarray]]:
        """Return a JSON value and the arrays it refers to; an array that occurs twice is kept once.

        Raises
        ------
        TypeError
            Something in it is of another class.
        """
        arrays: dict[str, np.ndarray] = {}
        names: dict[int, str] = {}
        return self._pack(value, arrays, names), arrays

    def unpack(self, plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        """Return the object.

        Raises
        ------
        ValueError
            The value was not packed by a packer with the same classes and shared objects.
        """
        try:
            return self._unpack(plain, arrays)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not what was packed: {error}") from None

    def _pack(self, value: object, arrays: dict[str, np.ndarray], names: dict[int, str]) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        for name, known in self.shared.items():
            if value is known:
                return {"shared": name}
        if isinstance(value, np.ndarray):
            if id(value) not in names:
                names[id(value)] = str(len(arrays))
                arrays[names[id(value)]] = value
            return {"array": names[id(value)]}
        if isinstance(value, np.generic):
            name = str(len(arrays))
            arrays[name] = np.asarray(value)
            return {"scalar": name}
        if type(value) in (tuple, list):
            items = [self._pack(item, arrays, names) for item in value]  # type: ignore[attr-defined]
            return {type(value).__name__: items}
        if isinstance(value, dict):
            return {"dict": [[self._pack(part, arrays, names) for part in item] for item in value.items()]}
        if self._classes.get(type(value).__name__) is not type(value):
            raise TypeError(f"{type(value).__name__} is not among the classes that can be packed")
        fields = {name: self._pack(getattr(value, name), arrays, names) for name in _fields(type(value))}
        return {"class": type(value).__name__, "fields": fields}

    def _unpack(self, plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        if not isinstance(plain, dict):
            return plain
        if "class" in plain:
            kind = self._classes[plain["class"]]
            return kind(**{name: self._unpack(value, arrays) for name, value in plain["fields"].items()})
        ((kind_of, content),) = plain.items()
        if kind_of == "shared":
            return self.shared[content]
        if kind_of == "array":
            return arrays[content]
        if kind_of == "scalar":
            return arrays[content][()]
        if kind_of == "dict":
            return {self._unpack(key, arrays): self._unpack(value, arrays) for key, value in content}
        return {"tuple": tuple, "list": list}[kind_of](self._unpack(item, arrays) for item in content)


def _fields(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(item.name for item in dataclasses.fields(kind))
    return tuple(kind._fields)  # type: ignore[attr-defined]
