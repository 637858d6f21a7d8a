"""What a merge would take, by a formula fitted to merges that were timed; docs/decisions.md says how."""

from __future__ import annotations

import math

from vber_cli.profiling.profile import Cost

# Ten merges of 500 to 100,000 records and 2 to 11 fields, on two cores: all took between half and twice this.
_SECONDS, _PER_ROOT_RECORD, _SECONDS_PER_PAIR = 3.0, 0.13, 3e-5
_BYTES, _PER_RECORD, _BYTES_PER_PAIR = 350 * 2**20, 1200.0, 350.0
LARGEST_TIMED, MOST_FIELDS_TIMED = 100_000, 11
_FACTOR, _FACTOR_BEYOND = 2.0, 5.0


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
    seconds = _SECONDS + _PER_ROOT_RECORD * math.sqrt(n_records) + _SECONDS_PER_PAIR * pairs
    basis = "a formula fitted to ten merges of 500 to 100,000 records and 2 to 11 fields on two cores"
    beyond = n_records > LARGEST_TIMED or n_fields > MOST_FIELDS_TIMED
    if beyond:
        basis += "; beyond that it is an extrapolation"
    if share < 1.0:
        basis += f"; pairs counted among {n_sampled:,} records and scaled up"
    return Cost(
        round(pairs),
        seconds,
        round(_BYTES + _PER_RECORD * n_records + _BYTES_PER_PAIR * pairs),
        _FACTOR_BEYOND if beyond else _FACTOR,
        basis,
    )
