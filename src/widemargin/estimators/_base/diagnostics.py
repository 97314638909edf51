"""Mixins for fitted estimators: leave-one-out, compact copies, HTML representation."""

from __future__ import annotations

import copy
import html
from types import SimpleNamespace
from typing import Any, ClassVar

from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate, in_print
from widemargin.fitted.base import LOOResult
from widemargin.fitted.record import find_record, record_of

BLOCK = (
    '<div class="widemargin-certificate" style="font: 0.9em/1.5 monospace; '
    "margin: 0.4em 0 0 0.2em; padding-left: 0.6em; "
    'border-left: 3px solid {colour}; white-space: pre-line">{text}</div>'
)
PROVED, OPEN = "#009E73", "#D55E00"


class Displayed:
    """Mixin that adds the certificate and the leave-one-out error to HTML diagrams.

    The error appears only if it has been computed before. Precedes scikit-learn's BaseEstimator in
    the bases of an estimator.
    """

    def _known(self) -> tuple[Certificate | None, LOOResult | None]:
        """Return the certificate and the cached leave-one-out result, each None if missing."""
        proof = getattr(self, "certificate_", None)
        record = find_record(self)
        return proof, None if record is None else record.known_result()

    def _notes(self) -> list[str]:
        """Return further lines about the fitted model."""
        return []

    def _block(self) -> str:
        proof, left_out = self._known()
        lines = self._notes() if proof is None else [f"certificate: {proof}", *self._notes()]
        lines += [] if left_out is None else [str(left_out)]
        colour = PROVED if proof is None or proof.converged else OPEN
        text = html.escape("\n".join(lines))
        return BLOCK.format(colour=colour, text=text) if lines else ""

    def _repr_html_inner(self) -> str:
        """Return the HTML diagram followed by the certificate, for `_repr_html_`."""
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + self._block()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += self._block()
        return shown

    def _sk_visual_block_(self) -> Any:
        """Return the box that represents the estimator in a diagram, e.g. that of a pipeline."""
        name = type(self).__name__
        return SimpleNamespace(
            kind="single",
            estimators=self,
            names=name,
            name_details=str(self),
            name_caption=self._caption(),
            doc_link_label=None,
            dash_wrapped=True,
        )

    def _caption(self) -> str | None:
        proof, left_out = self._known()
        parts = []
        if proof is not None:
            state = "" if proof.converged else ", not converged"
            parts.append(f"relative gap {in_print(proof.relative_gap):.1e}{state}")
        if left_out is not None:
            parts.append(f"leave-one-out error {left_out.error:.3g}")
        return "; ".join(parts) or None

    def __dir__(self) -> list[str]:
        # Tools that list fitted attributes read every name in dir(). Properties that end in "_"
        # are omitted, since computing them (leave-one-out) can be expensive.
        kind = type(self)
        return [
            name
            for name in object.__dir__(self)
            if not (name.endswith("_") and isinstance(getattr(kind, name, None), property))
            and hasattr(self, name)
        ]


class Diagnosed:
    """Mixin for estimators with a training record: leave-one-out and compact copies.

    `loo_scorings` lists the scorings that `LOOSearch` accepts for the estimator.
    """

    loo_scorings: ClassVar[tuple[str, ...]] = ("error",)

    def loo_decision_values(self, method: str = "auto", *, verbose: int = 0) -> FloatArray:
        """Return the leave-one-out decision value of each training sample.

        Parameters
        ----------
        method : {"auto", "exact", "linear_response", "span", "folds"}, default="auto"
            Leave-one-out method, see :func:`widemargin.loo.decision_values`.
        verbose : int, default=0
            If positive, display a progress bar.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Leave-one-out decision values (predictions of a regressor), in the order of the samples
            passed to `fit`.
        """
        return record_of(self).decision_values(method, verbose)

    def loo_error(self, method: str = "auto", *, verbose: int = 0) -> float:
        """Return the leave-one-out error of the fitted model.

        Parameters
        ----------
        method : str, default="auto"
            Leave-one-out method, see :func:`widemargin.loo.error`.
        verbose : int, default=0
            If positive, display a progress bar.

        Returns
        -------
        float
            Error rate of a classifier, mean absolute error of a regressor.
        """
        return record_of(self).result(method, verbose).error

    def compact(self) -> Any:
        """Return a copy of the model without its training data, for storage.

        Predictions are unchanged. Leave-one-out results and calibrations that have been computed
        are kept; computing others raises ValueError, since they require the training data.

        Returns
        -------
        estimator
            The compact model.
        """
        smaller = copy.copy(self)
        smaller._record_ = record_of(self).compact()  # type: ignore[attr-defined]
        return smaller
