"""Certificates that are computed when they are first read.

A certificate reads the samples several times, which takes as long as a small fit. If float64
estimates of its bounds leave no doubt that the fit has converged, it is computed only when it is
read, from the published model and the data.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from widemargin.certificate import Certificate, worst


class Proof:
    """Certificate of one solution, and what is known of it before it is computed.

    Parameters
    ----------
    n_iter : int
        Number of steps of the solver.
    primal : float
        Primal objective, up to rounding.
    converged : bool
        Whether the fit has converged.
    compute : callable
        Returns the certificate.
    """

    def __init__(
        self, n_iter: int, primal: float, converged: bool, compute: Callable[[], Certificate]
    ) -> None:
        self.n_iter = n_iter
        self.primal = primal
        self.converged = converged
        self._compute: Callable[[], Certificate] | None = compute
        self._certificate: Certificate | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, certificate: Certificate) -> Proof:
        """Return the proof of a certificate that is known."""
        c = certificate
        return cls(c.n_iter, c.primal, c.converged, lambda: certificate)

    @property
    def certificate(self) -> Certificate:
        """The certificate; computed once, also if several threads read it."""
        with self._lock:
            if self._certificate is None:
                assert self._compute is not None
                self._certificate = self._compute()
                self._compute = None  # it holds the data
            return self._certificate


class Certified:
    """Mixin that adds `certificate_` and `certificates_` to estimators that keep proofs."""

    _proofs_: list[Proof]

    def _keep_proofs(self, proofs: list[Proof]) -> None:
        """Store the proofs of a fit, instead of the certificates that a loaded model holds."""
        self._proofs_ = proofs
        for name in ("certificates_", "certificate_"):
            vars(self).pop(name, None)

    @property
    def certificates_(self) -> list[Certificate]:
        """Certificates of optimality, one per binary problem; computed when first read."""
        stored: list[Certificate] | None = vars(self).get("certificates_")
        if stored is not None:
            return stored
        check_is_fitted(self)
        return [proof.certificate for proof in self._proofs_]

    @certificates_.setter
    def certificates_(self, found: list[Certificate]) -> None:
        vars(self)["certificates_"] = found

    @property
    def certificate_(self) -> Certificate:
        """The worst of `certificates_`: unconverged ones first, then the largest relative gap."""
        stored: Certificate | None = vars(self).get("certificate_")
        return worst(self.certificates_) if stored is None else stored

    @certificate_.setter
    def certificate_(self, found: Certificate) -> None:
        vars(self)["certificate_"] = found

    def __getstate__(self) -> dict[str, Any]:
        inherited: Any = super()
        state: dict[str, Any] = inherited.__getstate__().copy()
        state.pop("_few_", None)  # made again when it is needed
        if "_proofs_" in state:  # copies and files hold the certificates themselves
            del state["_proofs_"]
            state |= {"certificates_": self.certificates_, "certificate_": self.certificate_}
        return state
