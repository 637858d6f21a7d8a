"""model.json: everything that was learned but what is about single values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vber_cli.errors import InputError
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.relations import Relations
from vber_cli.model.types import FloatArray
from vber_cli.results.open_result import OpenResult

MODEL = "model.json"
MODEL_FORMAT = "vber model"
_T = TypeVar("_T")


@dataclass(frozen=True)
class LearnedAlone:
    """What model.json holds: everything that was learned but θ and the similar values, which are about the values.

    Attributes
    ----------
    fields, types, linked
        As in `StoredModel`.
    concentration
        (F,) float64, overall α.
    noise, relations, dependence, tilt, near
        As in `Evidence`.
    n, log_new, tree, present
        As in `Hyperparameters`.
    """

    fields: tuple[str, ...]
    types: tuple[str, ...]
    linked: bool
    concentration: FloatArray
    noise: Noise
    relations: Relations
    dependence: Dependence
    tilt: FloatArray
    near: FloatArray | None
    n: float
    log_new: float
    tree: Dependence | None
    present: tuple[float, ...] | None


def to_plain(arrays: Any) -> dict[str, Any]:
    """A dataclass of arrays as lists; Python writes each float64 so that it is read back as the same number."""
    return {
        item.name: {"empty": list(value.shape)} if value.size == 0 else value.tolist()
        for item in dataclasses.fields(arrays)
        for value in [getattr(arrays, item.name)]
    }


def _from_plain(kind: type[_T], plain: Mapping[str, Any], whole: tuple[str, ...] = ()) -> _T:
    """The dataclass back from its lists; `whole` names the arrays of integers, and `anew` is of truth values."""
    arrays = {
        key: np.zeros(value["empty"]) if isinstance(value, dict) else np.array(value, dtype=np.float64)
        for key, value in plain.items()
    }
    kinds = dict.fromkeys(whole, np.int64) | {"anew": np.bool_}
    return kind(**{key: value.astype(kinds.get(key, np.float64)) for key, value in arrays.items()})


def read_json(result: OpenResult) -> dict[str, Any]:
    """Read model.json as plain JSON values.

    Raises
    ------
    InputError
        It is absent, or no model.
    """
    path = result.path / MODEL
    if not path.exists():
        raise InputError(
            f"{result.path} has no {MODEL}: it was made by an older version, or not by `vber merge`",
            "run `vber merge` again on the same files",
        )
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["format"] != MODEL_FORMAT:
            raise ValueError("of another format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a readable model ({error})", "run `vber merge` again") from None
    return dict(plain)


def model_fields(path: Path) -> tuple[str, ...]:
    """Return the fields of the result in a directory.

    Raises
    ------
    InputError
        It holds no readable model.
    """
    return tuple(read_json(OpenResult(path))["fields"])


def read_learned(result: OpenResult) -> LearnedAlone:
    """Read what a result has learned, without the values.

    Raises
    ------
    InputError
        The result was made without a model, or it is damaged.
    """
    return learned_alone(result, read_json(result))


def learned_alone(result: OpenResult, plain: Mapping[str, Any]) -> LearnedAlone:
    """What plain JSON values of model.json say.

    Raises
    ------
    InputError
        Something is missing, or of the wrong kind.
    """
    whole = ("parent", "redrawn")
    try:
        return LearnedAlone(
            tuple(plain["fields"]),
            tuple(plain["types"]),
            bool(plain["linked"]),
            np.array(plain["concentration"], dtype=np.float64),
            _from_plain(Noise, plain["noise"]),
            _from_plain(Relations, plain["relations"], whole),
            _from_plain(Dependence, plain["dependence"], whole),
            np.array(plain["tilt"], dtype=np.float64),
            None if plain.get("near") is None else np.array(plain["near"], dtype=np.float64),
            float(plain["n"]),
            float(plain["log_new"]),
            None if plain["tree"] is None else _from_plain(Dependence, plain["tree"], whole),
            None if plain["present"] is None else tuple(float(n) for n in plain["present"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(result, error) from None


def damaged(result: OpenResult, error: Exception) -> InputError:
    """What to tell of a model that cannot be read."""
    return InputError(f"{result.path / MODEL} is damaged ({error})", "run `vber merge` again")
