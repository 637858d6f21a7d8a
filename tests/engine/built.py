"""The engine's model of a case, and its kernels on one component."""

from __future__ import annotations

import numpy as np

from tests.called import from_python
from vber_cli.engine.block_model import Evidence, block_model
from vber_cli.engine.local_kernels import compare_kernel, scratch
from vber_cli.engine.unit_kernels import local_units

_compare = from_python(compare_kernel)


def evidence_of(case):
    return Evidence(case.prior, case.noise, case.similar, case.relations, case.dependence)


def model_of(case):
    return block_model(case.records, evidence_of(case))


class Local:
    """What the local kernels need of a component: records, levels, model and scratch space."""

    def __init__(self, model, members):
        self.records = np.asarray(members, np.int32)
        m = len(self.records)
        self.levels = np.zeros((m, m, model.codes.shape[1]), np.int8)
        _compare(self.records, model, self.levels)
        self.units = local_units(self.records, model.constraints)
        self.args = (self.records, self.levels, model, scratch(model))


def all_pairs(n):
    return tuple(side.astype(np.int32) for side in np.triu_indices(n, 1))
