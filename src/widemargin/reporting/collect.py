"""Content of a report as a plain dictionary.

The dictionary can be serialised to JSON, which ``widemargin report --json`` prints. Numbers are not
rounded, and null if not available; sentences are those of the page.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from widemargin.certificate import shown_violation
from widemargin.reporting import rows
from widemargin.reporting import texts as words
from widemargin.reporting.plain import as_code, jsonable, listed, number
from widemargin.reporting.rivals import Candidate
from widemargin.reporting.statistics import effective_rows, median_error, normal, wilson
from widemargin.reporting.subject import Subject

FORMAT = "widemargin-report-1"
PACKAGES = ("widemargin", "numpy", "scipy", "scikit-learn", "numba")


def collect(subject: Subject) -> dict[str, Any]:
    """Return the content of a report about a fitted model."""
    left_out = _leave_one_out(subject)
    found: dict[str, Any] = {
        "format": FORMAT,
        "task": subject.task,
        "data": _data(subject),
        "model": _model(subject),
        "leave_one_out": left_out,
        "tested": subject.tested,
        "certificate": _certificate(subject),
        "machines": [_machine(candidate, subject) for candidate in subject.candidates],
        "margins": rows.margin_distribution(subject),
        "calibration": rows.calibration(subject),
        "strengths": rows.embedding(subject),
        "suspects": rows.suspects(subject),
        "projection": rows.projection(subject),
        "landscape": _landscape(subject, left_out["usual"]),
        "relevance": _relevance(subject),
        "notes": list(subject.notes),
        "reproduction": {
            "python": platform.python_version(),
            "packages": {name: version(name) for name in PACKAGES},
            "seed": subject.seed,
        },
    }
    found["code"] = words.code(found)
    found["comparison"] = words.comparison(found)
    found["verdict"] = words.verdict(found)
    return found


def _data(subject: Subject) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": subject.source,
        "target": subject.target,
        "rows": len(subject.y),
        "weighted": bool(np.any(subject.weight != 1.0)),
        "inputs": len(subject.names),
        "columns": list(subject.table),
    }
    if subject.task == "regression":
        y = subject.in_units(subject.y)
        quartiles = listed(np.quantile(y, [0, 0.25, 0.5, 0.75, 1]))
        summary = {"mean": number(y.mean()), "deviation": number(y.std()), "quartiles": quartiles}
        return {**found, "target_summary": summary}
    labels, counts = np.unique(subject.y, return_counts=True)
    sizes = [{"label": str(k), "rows": int(n)} for k, n in zip(labels, counts, strict=True)]
    return {**found, "classes": sizes}


def _model(subject: Subject) -> dict[str, Any]:
    machine = subject.machine
    usual = type(machine)().get_params()
    changed = {
        name: value
        for name, value in machine.get_params().items()
        if type(value) is not type(usual[name]) or not np.all(value == usual[name])
    }
    gamma = getattr(machine, "gamma_", None)
    return {
        "name": type(machine).__name__,
        "words": words.MACHINES.get(type(machine).__name__, type(machine).__name__),
        "parameters": {name: jsonable(value) for name, value in changed.items()},
        "arguments": ", ".join(f"{name}={as_code(value)}" for name, value in changed.items()),
        "gamma": None if gamma is None else jsonable(gamma),
        "support": _support(machine),
        "standardised": bool(subject.candidates),
    }


def _support(machine: Any) -> int | None:
    """Return the number of support vectors; None if the model has none."""
    return len(machine.support_) if hasattr(machine, "support_") else None


def _leave_one_out(subject: Subject) -> dict[str, Any]:
    """Return the error with its 95 % interval and the error of a constant prediction."""
    result, weight = subject.result, subject.weight
    found: dict[str, Any] = {"method": result.method, "kind": result.kind, "rows": len(subject.y)}
    if subject.task != "regression":
        n = effective_rows(weight)
        low, high = wilson(result.error * n, n)
        wrong = int(np.count_nonzero(subject.wrong))
        sizes = np.bincount(np.unique(subject.y, return_inverse=True)[1], weight)
        usual = 1 - float(sizes.max() / sizes.sum())  # always predicting the largest class
        return {**found, "error": result.error, "wrong": wrong, "low": low, "high": high,
                "usual": usual}  # fmt: skip
    spread = subject.scale[1]
    y, values = subject.y, subject.values
    low, high = normal(np.abs(y - values), weight)
    around = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    squared = np.average((y - values) ** 2, weights=weight)
    return {
        **found,
        "error": result.error * spread,
        "low": low * spread,
        "high": high * spread,
        "usual": median_error(y, weight) * spread,  # always predicting the median
        "explained": number(1 - squared / around) if around > 0 else None,
    }


def _certificate(subject: Subject) -> dict[str, Any] | None:
    proof = getattr(subject.machine, "certificate_", None)
    if proof is None:
        return None
    found = {
        "problem": proof.problem,
        "primal": number(proof.primal),
        "dual": number(proof.dual),
        "relative_gap": number(proof.relative_gap),
        # None where it would contradict "converged", see `shown_violation`.
        "kkt_violation": number(proof.kkt_violation) if shown_violation(proof, "{}") else None,
        "converged": bool(proof.converged),
        "n_iter": int(proof.n_iter),
        "problems": len(getattr(subject.machine, "certificates_", [proof])),
    }
    return {**found, "words": words.certificate(found)}


def _machine(candidate: Candidate, subject: Subject) -> dict[str, Any]:
    """Return one row of the comparison."""
    result = candidate.result
    found = {
        "name": candidate.name,
        "parameters": {name: jsonable(value) for name, value in candidate.params.items()},
        "seconds": candidate.seconds,
        "reason": candidate.reason,
        "chosen": candidate.model is subject.machine,
    }
    if result is None:
        return {**found, "error": None}
    return {
        **found,
        "error": result.error * _unit(subject),
        "method": result.method,
        "kind": result.kind,
        "how": words.how(result.method, result.kind),
        "support": _support(candidate.model),
    }


def _landscape(subject: Subject, usual: float) -> dict[str, Any] | None:
    land = subject.landscape
    if land is None:
        return None
    soft = next(c for c in subject.candidates if c.name in ("SVC", "SVR"))
    return {
        "machine": soft.name,
        "C": land.costs,
        "gamma": land.gammas,
        "error": [listed(row * _unit(subject)) for row in land.error],
        "usual": usual,
        "rows": land.n_rows,
        "how": words.how(land.method, "exact" if land.method == "exact" else "estimate"),
        "chosen": {"C": float(soft.params["C"]), "gamma": float(soft.params["gamma"])},
    }


def _unit(subject: Subject) -> float:
    """Return the factor that converts errors to the user's units."""
    return subject.scale[1] if subject.task == "regression" else 1.0


def _relevance(subject: Subject) -> dict[str, Any] | None:
    """Return the relevance of each feature, from the best model with one gamma per feature."""
    fitted = [c.model for c in subject.candidates if c.model is not None]
    for machine in [subject.machine, *fitted]:
        gamma = np.atleast_1d(getattr(machine, "gamma_", np.nan))
        if subject.X is not None and len(gamma) == subject.X.shape[1] > 1:
            share = gamma * subject.X.var(axis=0)
            share = share / max(float(share.sum()), np.finfo(float).tiny)
            order = np.argsort(-share, kind="stable")
            inputs = [{"input": subject.names[j], "share": float(share[j])} for j in order]
            return {"machine": type(machine).__name__, "inputs": inputs}
    return None
