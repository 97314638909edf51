"""Kernel data and solutions of the binary problems of a linear-programming classifier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.certificate import Certificate
from widemargin.kernels import Rows
from widemargin.problems.linear_program import MarginProgram
from widemargin.solvers.linear_program import ProgramResult

AT_LIMIT = 1 - 1e-6  # fraction of its limit from which a coefficient counts as limited


@dataclass(frozen=True, eq=False)
class KernelData:
    """Training samples with the kernel quantities that all binary problems share.

    Attributes
    ----------
    rows : Rows
        The samples with their kernel.
    diagonal : ndarray
        k(x_i, x_i).
    limit : ndarray
        Upper bounds of the coefficients, see `problems.linear_program.limits`.
    equal : ndarray or None
        Group number of each sample, equal for equal samples of different classes; None if there
        are no such samples.
    weight_error : float
        Relative error of the weights.
    """

    rows: Rows
    diagonal: FloatArray
    limit: FloatArray
    equal: IntArray | None
    weight_error: float = 0.0


@dataclass(frozen=True, eq=False)
class BinaryFit:
    """Solution of one binary problem: program, optimum, certificate and an optional warning.

    `gap_scale` is the scale to which the duality gap is relative, `rho` the margin by which the
    coefficients have been divided, and `held` names a parameter of the program that the estimator
    does not have. `original` is the program that was solved, with its multipliers, if `problem` is
    an equivalent one.
    """

    problem: MarginProgram
    result: ProgramResult
    lam_max: float
    gap_scale: float
    found: Certificate | None = None
    warning: str = ""
    rho: float = 1.0
    held: str = ""
    original: tuple[MarginProgram, FloatArray] | None = None

    @property
    def certificate(self) -> Certificate:
        """Certificate of the published coefficients."""
        assert self.found is not None
        return self.found

    @property
    def certified(self) -> MarginProgram:
        """Program that the certificate bounds."""
        return self.problem if self.original is None else self.original[0]

    @property
    def multipliers(self) -> FloatArray:
        """Multipliers of that program."""
        return self.result.z if self.original is None else self.original[1]

    @property
    def slack(self) -> FloatArray:
        """Slack of each sample."""
        return self.problem.slack(self.result.alpha, self.result.f)

    @property
    def at_limit(self) -> BoolArray:
        """Mask of the coefficients at their upper bound; none for the nu program."""
        alpha, limit = self.result.alpha, self.problem.limit
        return np.asarray((limit > 0) & (alpha >= AT_LIMIT * limit) & (self.problem.nu is None))
