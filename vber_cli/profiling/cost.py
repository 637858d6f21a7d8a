"""What a merge would take, by a formula fitted to merges that were timed; docs/decisions.md says how."""

from __future__ import annotations

import math

from vber_cli.profiling.profile import Cost
from vber_cli.running import MOST_LEARNED_FROM, least_memory_of_merge, memory_of_merge

# Twelve merges of 500 to ten million records and 6 to 11 fields, on two cores: all took between a third of this and
# three times as much. How hard components are, records and pairs do not tell.
_SECONDS, _PER_ROOT_LEARNED_FROM, _PER_RECORD = 2.0, 0.03, 3.3e-5
LARGEST_TIMED, MOST_FIELDS_TIMED = 10_000_000, 11
_FACTOR, _FACTOR_BEYOND = 3.0, 5.0


def estimate_cost(size: tuple[int, int], pairs_in_sample: int, n_sampled: int, most_pairs: int) -> Cost:
    """Estimate time and memory of a merge.

    Parameters
    ----------
    size
        Records N and fields F.
    pairs_in_sample, n_sampled
        Candidate pairs among a random sample of the records; N² / n² times as many are among all, up to what is kept.
    most_pairs
        How many are kept, at most.
    """
    n_records, n_fields = size
    share = n_sampled / max(n_records, 1)
    pairs = min(pairs_in_sample / max(share, 1e-12) ** 2, most_pairs)
    if share >= 1.0:
        pairs = pairs_in_sample
    learned_from = min(n_records, MOST_LEARNED_FROM)
    seconds = _SECONDS + _PER_ROOT_LEARNED_FROM * math.sqrt(learned_from) + _PER_RECORD * n_records
    basis = "a formula fitted to twelve merges of 500 to ten million records and 6 to 11 fields on two cores"
    beyond = n_records > LARGEST_TIMED or n_fields > MOST_FIELDS_TIMED
    if beyond:
        basis += "; beyond that it is an extrapolation"
    if share < 1.0:
        basis += f"; pairs counted among {n_sampled:,} records and scaled up"
    return Cost(
        round(pairs),
        seconds,
        round(memory_of_merge(n_records, n_fields)),
        round(least_memory_of_merge(n_records, n_fields)),
        _FACTOR_BEYOND if beyond else _FACTOR,
        basis,
    )
