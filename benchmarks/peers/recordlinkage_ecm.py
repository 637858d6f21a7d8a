#!/usr/bin/env python3
"""recordlinkage's ECM on RLdata: `python recordlinkage_ecm.py FILE OUT.parquet` writes rec_id and cluster.

Blocked on the year of birth; names by Jaro-Winkler, the rest exact. Pairs it calls links are joined to clusters.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd
import recordlinkage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components


def main(arguments: Sequence[str]) -> int:
    """Read, compare, classify, join, write."""
    file, out = arguments
    people = pd.read_csv(file, dtype=str).set_index("rec_id")
    index = recordlinkage.Index()
    index.block("by")
    pairs = index.index(people)
    compare = recordlinkage.Compare()
    for name in ("fname_c1", "lname_c1"):
        compare.string(name, name, method="jarowinkler", threshold=0.85)
    for part in ("by", "bm", "bd"):
        compare.exact(part, part)
    links = recordlinkage.ECMClassifier().fit_predict(compare.compute(pairs, people))
    a, b = (people.index.get_indexer(links.get_level_values(side)) for side in (0, 1))
    graph = coo_matrix((np.ones(len(a)), (a, b)), shape=(len(people), len(people)))
    cluster = connected_components(graph, directed=False)[1]
    pd.DataFrame({"rec_id": people.index, "cluster": cluster}).to_parquet(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
