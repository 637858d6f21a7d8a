"""Kernels of the coordinate-ascent loop. Shapes as in model.md section 1, sparse as its last paragraph says.

Values of all fields are numbered through: value v of field f is `value_ptr[f] + v`. A *cell* is one (individual, field,
value) with mass, c_kfv > 0; the cells of individual k and field f are `cell_ptr[k * F + f] : cell_ptr[k * F + f + 1]`,
sorted by value. All individuals without a cell of their own are alike and counted together as the rest.
"""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.special_kernels import digamma, mix64
from vber_cli.model.compile_kernels import kernel, leaf
from vber_cli.model.search_kernels import place_of

# A term this far (in nats) below the largest one is beyond double precision: it is left out and bounded.
NEGLIGIBLE = 40.0
_MOST_HOLDERS = 4096  # of two values at once, beyond which the rarest field is walked instead


@kernel
def expectations_kernel(  # type: ignore[no-untyped-def]
    lo, hi, cell_ptr, cell_value, cell_count, prior, prior_total, n_observed, psi_once, psi_cell, psi_total
):
    """ψ(A_fv + c_kfv) of every cell and ψ(A_f• + N_kf) of every (individual, field), for individuals lo..hi-1.

    Most of them were seen with a value once: `psi_once` (ΣV,) is ψ(A + 1). Returns the least of ψ(A_f• + N_kf), (F,).
    """
    n_fields = n_observed.shape[1]
    least, once = np.full(n_fields, np.inf), np.empty(n_fields)
    for f in range(n_fields):
        once[f] = digamma(prior_total[f] + 1.0)
    for k in range(lo, hi):
        for f in range(n_fields):
            n = n_observed[k, f]
            psi_total[k, f] = once[f] if n == 1.0 else digamma(prior_total[f] + n)
            least[f] = min(least[f], psi_total[k, f])
            for e in range(cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1]):
                v = cell_value[e]
                psi_cell[e] = psi_once[v] if cell_count[e] == 1.0 else digamma(prior[v] + cell_count[e])
    return least


@kernel
def postings_kernel(cell_ptr, cell_value, psi_cell, psi_total, n_values_total):  # type: ignore[no-untyped-def]
    """Individuals that hold each value (CSR over values), and the best factor any of them gives a record with it."""
    n_stored, n_fields = psi_total.shape
    ptr = np.zeros(n_values_total + 1, np.int64)
    best = np.full(n_values_total, -np.inf)
    for e in range(len(cell_value)):
        ptr[cell_value[e] + 1] += 1
    for v in range(n_values_total):
        ptr[v + 1] += ptr[v]
    fill = ptr[:-1].copy()
    individual = np.empty(len(cell_value), np.int32)
    for k in range(n_stored):
        for f in range(n_fields):
            for e in range(cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1]):
                v = cell_value[e]
                individual[fill[v]] = k
                fill[v] += 1
                best[v] = max(best[v], psi_cell[e] - psi_total[k, f])
    return ptr, individual, best


@leaf
def _score(k, r, codes, value_ptr, cell_ptr, cell_value, psi_cell, psi_total, psi_prior):  # type: ignore[no-untyped-def]
    """Σ_f [ψ(λ_kf,x_rf) − ψ(Σ_u λ_kfu)] over the record's observed fields."""
    n_fields = codes.shape[1]
    total = 0.0
    for f in range(n_fields):
        v = codes[r, f]
        if v < 0:
            continue
        g = value_ptr[f] + v
        cell = place_of(g, cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1], cell_value)
        total += (psi_cell[cell] if cell >= 0 else psi_prior[g]) - psi_total[k, f]
    return total


@leaf
def _pair_key(g, h):  # type: ignore[no-untyped-def]
    """A 64-bit key of two values numbered through all fields."""
    return mix64((np.uint64(g) << np.uint64(32)) | np.uint64(h))


@kernel
def usual_pairs_kernel(records, codes, value_ptr, post_ptr):  # type: ignore[no-untyped-def]
    """How often two fields are the two rarest of a record, (F, F) int64, over some of the records."""
    n_fields = codes.shape[1]
    count = np.zeros((n_fields, n_fields), np.int64)
    for r in records:
        first, second = -1, -1
        least, next_least = np.int64(1) << 62, np.int64(1) << 62
        for f in range(n_fields):
            if codes[r, f] < 0:
                continue
            g = value_ptr[f] + codes[r, f]
            n = post_ptr[g + 1] - post_ptr[g]
            if n < least:
                first, second, least, next_least = f, first, n, least
            elif n < next_least:
                second, next_least = f, n
        if second >= 0:
            count[min(first, second), max(first, second)] += 1
    return count


@kernel
def holders_kernel(cell_ptr, cell_value, n_fields, f, g, head, follow, individual, used):  # type: ignore[no-untyped-def]
    """Fill in the individuals by the values they hold of fields f and g, from entry `used` on.

    They are chains from `head` (M,), M a power of two and all −1, over entries of (next entry, individual); −1 ends a
    chain. Values whose keys agree in their last bits share one.
    """
    width = len(head)
    for k in range((len(cell_ptr) - 1) // n_fields):
        one, two = k * n_fields + f, k * n_fields + g
        for e in range(cell_ptr[one], cell_ptr[one + 1]):
            for d in range(cell_ptr[two], cell_ptr[two + 1]):
                at = np.int64(_pair_key(cell_value[e], cell_value[d]) & np.uint64(width - 1))
                individual[used] = k
                follow[used] = head[at]
                head[at] = used
                used += 1


@leaf
def _holders_of(p, f, g, v, w, cell_ptr, cell_value, n_fields, head, follow, individual, out):  # type: ignore[no-untyped-def]
    """Fill `out` with those who hold value v of field f and w of field g, the p-th pair of fields.

    Returns how many, −1 if there are more than it can take.
    """
    e = head[p, np.int64(_pair_key(v, w) & np.uint64(head.shape[1] - 1))]
    n = 0
    while e >= 0:
        k = individual[e]
        e = follow[e]
        if n > 0 and out[n - 1] == k:
            continue  # entries of one individual lie side by side
        one, two = k * n_fields + f, k * n_fields + g
        if place_of(v, cell_ptr[one], cell_ptr[one + 1], cell_value) < 0:
            continue
        if place_of(w, cell_ptr[two], cell_ptr[two + 1], cell_value) < 0:
            continue
        if n == len(out):
            return -1
        out[n] = k
        n += 1
    return n


@leaf
def _rank_fields(  # type: ignore[no-untyped-def]
    r, codes, value_ptr, post_ptr, post_best, psi_prior, unshared_total, psi_rest, psi_rest_total, fields, length, least
):
    """The record's observed fields, the rarest value first, in `fields`; in `least` (F,) what not sharing each costs.

    Returns (number of fields, bound on any score, score of the rest).
    """
    m = 0
    bound = 0.0
    score_rest = 0.0
    for f in range(codes.shape[1]):
        v = codes[r, f]
        least[f] = 0.0
        if v < 0:
            continue
        g = value_ptr[f] + v
        n_holders = post_ptr[g + 1] - post_ptr[g]
        at = m
        while at > 0 and length[at - 1] > n_holders:
            fields[at], length[at] = fields[at - 1], length[at - 1]
            at -= 1
        fields[at], length[at] = f, n_holders
        m += 1
        unshared = psi_prior[g] - unshared_total[f]
        bound += max(post_best[g], unshared)
        least[f] = max(post_best[g], unshared) - unshared
        score_rest += psi_rest[g] - psi_rest_total[f]
    return m, bound, score_rest


@kernel
def local_kernel(  # type: ignore[no-untyped-def]
    lo, hi, codes, value_ptr, cell_ptr, cell_value, psi_cell, psi_total, psi_prior,
    unshared_total, post_ptr, post_individual, post_best, psi_rest, psi_rest_total, n_rest, hint, pair_fields, holders,
):  # fmt: skip
    """The local step for records lo..hi-1: φ_dr over the stored individuals and, in one number, over the rest.

    Every field's factor is at most `post_best` where a value is shared and at most ψ(A_fx) − `unshared_total` where it
    is not, which (F,) is min_k ψ(A_f• + N_kf). Fields are walked from the rarest value on; an individual met in none of
    the fields walked so far cannot score above a bound, and once that bound is negligible beside the best score found
    the walk ends. What is left out is thereby at most `n_stored · e^-NEGLIGIBLE` of the row. Where two fields of
    `pair_fields` must both be shared to matter, only their `holders` are looked at. `hint` (N,) is an individual that
    may be the best, −1 for none.
    Returns (row sizes, individuals ascending, φ, φ of rest).
    """
    n_stored, n_fields = psi_total.shape
    log_stored = math.log(max(n_stored, 1))
    size = np.zeros(hi - lo, np.int64)
    rest = np.zeros(hi - lo, np.float64)
    capacity = 4 * (hi - lo) + 64
    individual = np.empty(capacity, np.int32)
    phi = np.empty(capacity, np.float64)
    used = 0
    # of all individuals, and so made only once a record is met that needs them
    seen, everyone = np.empty(0, np.int32), np.empty(0, np.int32)
    both = np.empty(_MOST_HOLDERS, np.int32)
    fields, length, least = np.empty(n_fields, np.int64), np.empty(n_fields, np.int64), np.empty(n_fields)
    for r in range(lo, hi):
        m, bound, score_rest = _rank_fields(
            r, codes, value_ptr, post_ptr, post_best, psi_prior, unshared_total, psi_rest, psi_rest_total, fields,
            length, least,
        )  # fmt: skip
        if m == 0:
            continue  # a record without a value is spread evenly over all K; nothing is stored for it
        best = score_rest + math.log(n_rest) if n_rest > 0 else -np.inf
        if hint[r] >= 0:
            likely = _score(hint[r], r, codes, value_ptr, cell_ptr, cell_value, psi_cell, psi_total, psi_prior)
            best = max(best, likely)
        n_both = -1
        for p in range(len(pair_fields)):
            one, two = pair_fields[p, 0], pair_fields[p, 1]
            if bound - min(least[one], least[two]) + log_stored < best - NEGLIGIBLE:
                g, h = value_ptr[one] + codes[r, one], value_ptr[two] + codes[r, two]
                n_both = _holders_of(
                    p, one, two, g, h, cell_ptr, cell_value, n_fields, holders[0], holders[1], holders[2], both
                )
                break
        if n_both < 0 and len(seen) < n_stored:
            seen, everyone = np.full(n_stored, -1, np.int32), np.arange(n_stored).astype(np.int32)
        first = used
        walked = 0
        while n_both >= 0 or not (bound + log_stored < best - NEGLIGIBLE or walked > m):
            if n_both >= 0:
                source = both[:n_both]
            elif walked < m:
                g = value_ptr[fields[walked]] + codes[r, fields[walked]]
                source = post_individual[post_ptr[g] : post_ptr[g + 1]]
            else:
                source = everyone  # nothing shared decides: look at everyone
            for k in source:
                if n_both < 0:
                    if seen[k] == r:
                        continue
                    seen[k] = r
                score = _score(k, r, codes, value_ptr, cell_ptr, cell_value, psi_cell, psi_total, psi_prior)
                if score < best - NEGLIGIBLE - log_stored:
                    continue
                best = max(best, score)
                if used == capacity:
                    capacity *= 2
                    grown, grown_phi = np.empty(capacity, np.int32), np.empty(capacity, np.float64)
                    grown[:used], grown_phi[:used] = individual[:used], phi[:used]
                    individual, phi = grown, grown_phi
                individual[used] = k
                phi[used] = score
                used += 1
            if n_both >= 0:
                break
            if walked < m:
                bound -= least[fields[walked]]
            walked += 1
        used, rest[r - lo] = _normalise(individual, phi, first, used, best, score_rest, n_rest)
        size[r - lo] = used - first
    return size, individual[:used].copy(), phi[:used].copy(), rest


@leaf
def _normalise(individual, phi, first, used, best, score_rest, n_rest):  # type: ignore[no-untyped-def]
    """Scores first..used-1 to φ, by ascending individual, what is negligible left out; (end, φ of the rest)."""
    kept = first
    total = 0.0
    for e in range(first, used):
        if phi[e] >= best - NEGLIGIBLE:
            k, part = individual[e], math.exp(phi[e] - best)
            total += part
            at = kept
            while at > first and individual[at - 1] > k:
                individual[at], phi[at] = individual[at - 1], phi[at - 1]
                at -= 1
            individual[at], phi[at] = k, part
            kept += 1
    rest = n_rest * math.exp(score_rest - best) if n_rest > 0 else 0.0
    total += rest
    for e in range(first, kept):
        phi[e] /= total
    return kept, rest / total


@kernel
def digamma_kernel(x):  # type: ignore[no-untyped-def]
    """ψ of every element of a one-dimensional array."""
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = digamma(x[i])
    return out


@kernel
def largest_kernel(ptr, phi):  # type: ignore[no-untyped-def]
    """(N,) int64: the place of each row's largest φ, the first of several; −1 where the row is empty."""
    out = np.full(len(ptr) - 1, -1, np.int64)
    for r in range(len(ptr) - 1):
        most = -1.0
        for e in range(ptr[r], ptr[r + 1]):
            if phi[e] > most:
                most = phi[e]
                out[r] = e
    return out


@kernel
def mass_kernel(ptr, individual, block, records, others, probability, out):  # type: ignore[no-untyped-def]
    """Add the probability of each pair (record, other) to the place where the record's φ of the other's block is."""
    for i in range(len(records)):
        k = block[others[i]]
        if k >= 0:
            e = place_of(k, ptr[records[i]], ptr[records[i] + 1], individual)
            if e >= 0:
                out[e] += probability[i]


@kernel
def restless_kernel(ptr, individual, phi, old_ptr, old_individual, old_phi, n_stored, least):  # type: ignore[no-untyped-def]
    """(N,) bool: records that lean on an individual on which some record has come to lean by more than `least`."""
    moved = np.zeros(n_stored, np.bool_)
    for r in range(len(ptr) - 1):
        i, j = ptr[r], old_ptr[r]
        same = ptr[r + 1] - i == old_ptr[r + 1] - j
        while same and i < ptr[r + 1]:
            same = individual[i] == old_individual[j] and abs(phi[i] - old_phi[j]) <= least
            i += 1
            j += 1
        if not same:
            for e in range(ptr[r], ptr[r + 1]):
                moved[individual[e]] = True
            for e in range(old_ptr[r], old_ptr[r + 1]):
                moved[old_individual[e]] = True
    out = np.zeros(len(ptr) - 1, np.bool_)
    for r in range(len(ptr) - 1):
        for e in range(ptr[r], ptr[r + 1]):
            if moved[individual[e]]:
                out[r] = True
                break
    return out


@kernel
def change_kernel(ptr, individual, phi, old_ptr, old_individual, old_phi):  # type: ignore[no-untyped-def]
    """Largest |φ − φ_old| over all entries of two row-sorted sparse matrices."""
    largest = 0.0
    for r in range(len(ptr) - 1):
        i, j = ptr[r], old_ptr[r]
        while i < ptr[r + 1] or j < old_ptr[r + 1]:
            if j == old_ptr[r + 1] or (i < ptr[r + 1] and individual[i] < old_individual[j]):
                largest = max(largest, phi[i])
                i += 1
            elif i == ptr[r + 1] or individual[i] > old_individual[j]:
                largest = max(largest, old_phi[j])
                j += 1
            else:
                largest = max(largest, abs(phi[i] - old_phi[j]))
                i += 1
                j += 1
    return largest
