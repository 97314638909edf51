"""Checkpoints of the implicit-outlier method: save and restore the state between rounds.

The state consists of planes, sums and the row numbers of the explicit samples, which are read again
when a run resumes. Floating-point numbers are stored to the last bit, so that a resumed run returns
the same model.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.linear_scan import Evaluation, LinearProblem
from widemargin.solvers.out_of_core.rounds import Base, Best, Progress, Rounds
from widemargin.solvers.out_of_core.scan import Limits
from widemargin.sources.protocol import Source

KEPT = ("primal", "dual", "violation", "rounding")  # stored fields of an evaluation


def state_of(rounds: Rounds) -> dict[str, Any]:
    """Return the state of a run: planes, sums and the row numbers of the explicit samples."""
    at = rounds.at
    base, best, constant = at.base, at.best, at.constant
    state: dict[str, Any] = {
        **asdict(rounds.problem),
        "sizes": [int(size) for size in rounds.source.sizes],
        "round": at.round,
        "passes": at.passes,
        "history": [dict(entry) for entry in at.history],
        "base": {"w": base.w, "t": base.t, "size": base.size},
        "limits": [list(base.limits.low), list(base.limits.high)],
        "best": {"w": best.w, "t": best.t, **asdict(best.found)},
        "best_constant": {"w": constant.w, "t": constant.t, **asdict(constant.found)},
        "centre": rounds.centre,
        "bounded_sum": at.bounded_sum,
        "mass": at.mass,
        "near": None if at.near is None else list(at.near),
        "explicit": None,
    }
    if at.explicit is not None:
        state["explicit"] = {"part": at.explicit.part, "rows": at.explicit.rows}
    return state


def resumed(source: Source, problem: LinearProblem, state: dict[str, Any]) -> Rounds:
    """Restore a run from its state and read its explicit samples."""
    expected = (asdict(problem), [int(size) for size in source.sizes])
    if ({key: state.get(key) for key in expected[0]}, list(state["sizes"])) != expected:
        raise ValueError(
            f"checkpoint belongs to another problem ({state['kind']}, cap {state['cap']}, "
            f"{len(state['sizes'])} parts); remove it or give another checkpoint"
        )
    low, high = (tuple(float(x) for x in pair) for pair in state["limits"])
    base = state["base"]
    progress = Progress(
        Base(_array(base["w"]), _array(base["t"]), Limits(low, high), float(base["size"])),  # type: ignore[arg-type]
        _best(state["best"]),
        _best(state["best_constant"]),
        bounded_sum=_array(state["bounded_sum"]),
        mass=_array(state["mass"]),
        round=int(state["round"]),
        passes=float(state["passes"]),
        history=[dict(entry) for entry in state["history"]],
    )
    if state["near"] is not None:
        w, t, number = state["near"]
        progress.near = _array(w), _array(t), int(number)
    centre = None if state["centre"] is None else _array(state["centre"])
    rounds = Rounds(source, problem, centre, progress)
    explicit = state["explicit"]
    if explicit is not None:
        part, rows = (np.asarray(explicit[key], dtype=np.intp) for key in ("part", "rows"))
        rounds.regather(part, rows)
    return rounds


def _best(stored: dict[str, Any]) -> Best:
    """Return a model with its evaluation."""
    found = Evaluation(**{name: float(stored[name]) for name in KEPT})
    return Best(_array(stored["w"]), _array(stored["t"]), found)


def _array(values: Any) -> FloatArray:
    """Return a float64 array."""
    return np.asarray(values, dtype=np.float64)
