#!/usr/bin/env python3
"""Splink 5 on lists of people: `python splink_people.py FILE... OUT.parquet` writes rec_id and cluster.

Its blocking rules, comparisons and training follow its documentation, chosen for these fields; the truth is not used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import duckdb
import splink.comparison_library as cl
from splink import Linker, SettingsCreator, block_on
from splink.internals.duckdb.database_api import DuckDBAPI

THRESHOLD = 0.95  # Splink's usual one


def main(arguments: Sequence[str]) -> int:
    """Read, train, predict, cluster, write."""
    *files, out = arguments
    database = duckdb.connect()
    parts = " union all ".join(f"select * from read_csv('{file}', all_varchar=true)" for file in files)
    database.execute(f"create table people as {parts}")
    database.execute("alter table people rename rec_id to unique_id")
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=[
            cl.NameComparison("first_name").configure(term_frequency_adjustments=True),
            cl.NameComparison("last_name").configure(term_frequency_adjustments=True),
            cl.DateOfBirthComparison("birth_date", input_is_string=True),
            cl.ExactMatch("sex"),
            cl.LevenshteinAtThresholds("postcode", 1),
            cl.LevenshteinAtThresholds("city", 2).configure(term_frequency_adjustments=True),
        ],
        blocking_rules_to_generate_predictions=[
            block_on("last_name", "birth_date"),
            block_on("first_name", "birth_date"),
            block_on("first_name", "last_name", "postcode"),
            block_on("birth_date", "postcode"),
            block_on("first_name", "last_name", "city"),
        ],
        retain_matching_columns=False,
    )
    linker = Linker(DuckDBAPI(connection=database).register("people"), settings)
    linker.training.estimate_probability_two_random_records_match(
        [block_on("first_name", "last_name", "birth_date"), block_on("last_name", "birth_date", "postcode")], recall=0.7
    )
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    linker.training.estimate_parameters_using_expectation_maximisation(block_on("last_name", "birth_date"))
    linker.training.estimate_parameters_using_expectation_maximisation(block_on("first_name", "postcode"))
    found = linker.inference.predict(threshold_match_probability=0.5)
    clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(found, THRESHOLD)
    database.execute(
        f"copy (select unique_id as rec_id, cluster_id as cluster from {clusters.physical_name}) "
        f"to '{out}' (format parquet)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
