"""The paper's equations, written as loops over dense arrays (model.md section 1); imports nothing from the engine."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, softmax


def dense_lambda(codes, alpha, phi):
    """λ_kfv = A_fv + Σ_r φ_rk 1{x_rf = v}: a list over fields of (K, V_f)."""
    lam = []
    for f in range(codes.shape[1]):
        one_hot = np.zeros((len(codes), len(alpha[f])))
        for r, v in enumerate(codes[:, f]):
            if v >= 0:
                one_hot[r, v] = 1.0
        lam.append(alpha[f][None, :] + phi.T @ one_hot)
    return lam


def dense_phi(codes, lam, n_individuals):
    """φ_rk ∝ exp Σ_f [ψ(λ_kf,x) − ψ(Σ_u λ_kfu)]."""
    score = np.zeros((len(codes), n_individuals))
    for f, lam_f in enumerate(lam):
        elog = digamma(lam_f) - digamma(lam_f.sum(axis=1, keepdims=True))
        for r, v in enumerate(codes[:, f]):
            if v >= 0:
                score[r] += elog[:, v]
    return softmax(score, axis=1)


def log_beta_function(a):
    return gammaln(a).sum(axis=-1) - gammaln(a.sum(axis=-1))


def short_elbo(alpha, phi, lam):
    """The short form, valid right after a λ step."""
    n_records, n_individuals = phi.shape
    mass = phi[phi > 0]
    total = -n_records * np.log(n_individuals) - np.sum(mass * np.log(mass))
    for f, lam_f in enumerate(lam):
        total += np.sum(log_beta_function(lam_f) - log_beta_function(alpha[f]))
    return total


def full_elbo(codes, alpha, phi, lam):
    """Term by term: E log p(z) + E log p(β) + E log p(x | z, β) − E log q(z) − E log q(β); valid for any φ and λ."""
    n_records, n_individuals = phi.shape
    mass = phi[phi > 0]
    total = -n_records * np.log(n_individuals) - np.sum(mass * np.log(mass))
    for f, lam_f in enumerate(lam):
        elog = digamma(lam_f) - digamma(lam_f.sum(axis=1, keepdims=True))
        total += np.sum((alpha[f][None, :] - 1) * elog) - n_individuals * log_beta_function(alpha[f])
        total -= np.sum((lam_f - 1) * elog) - np.sum(log_beta_function(lam_f))
        for r, v in enumerate(codes[:, f]):
            if v >= 0:
                total += phi[r] @ elog[:, v]
    return total
