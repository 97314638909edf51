"""Mixins of the fitted estimators: leave-one-out, a compact copy, and what a notebook shows."""

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
    """The certificate, and the leave-one-out error if it is known already, in HTML diagrams.

    Nothing is computed to be shown. Stands before scikit-learn's BaseEstimator.
    """

    def _known(self) -> tuple[Certificate | None, LOOResult | None]:
        """Return what is known of the fit; nothing before it."""
        proof = getattr(self, "certificate_", None)
        record = find_record(self)
        return proof, None if record is None else record.known_result()

    def _block(self) -> str:
        proof, left_out = self._known()
        lines = [] if proof is None else [f"certificate: {proof}"]
        lines += [] if left_out is None else [str(left_out)]
        colour = PROVED if proof is None or proof.converged else OPEN
        text = html.escape("\n".join(lines))
        return BLOCK.format(colour=colour, text=text) if lines else ""

    def _repr_html_inner(self) -> str:
        """Return the diagram with the certificate below it; `_repr_html_` hands this out."""
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + self._block()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += self._block()
        return shown

    def _sk_visual_block_(self) -> Any:
        """Return the machine as a box of a diagram, a pipeline's for one, with a caption."""
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
        # Both dir() and scikit-learn's list of fitted attributes read all that is listed here:
        # properties that end in "_" are found when they are asked for, and that can take long.
        kind = type(self)
        return [
            name
            for name in object.__dir__(self)
            if not (name.endswith("_") and isinstance(getattr(kind, name, None), property))
            and hasattr(self, name)
        ]


class Diagnosed:
    """Leave-one-out of a machine that keeps its training record, and a copy without it.

    `loo_scorings` are the scores by which `LOOSearch` can choose its parameters.
    """

    loo_scorings: ClassVar[tuple[str, ...]] = ("error",)

    def loo_decision_values(self, method: str = "auto") -> FloatArray:
        """Return the decision value of each training row by the model without that row.

        Parameters
        ----------
        method : {"auto", "exact", "linear_response", "span", "folds"}, default="auto"
            See :func:`widemargin.loo.decision_values`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Left-out values, in the order of the training rows.
        """
        return record_of(self).decision_values(method)

    def loo_error(self, method: str = "auto") -> float:
        """Return the leave-one-out error.

        Parameters
        ----------
        method : str, default="auto"
            See :func:`widemargin.loo.error`.

        Returns
        -------
        float
            Error rate of a classifier, mean absolute error of a regressor.
        """
        return record_of(self).result(method).error

    def compact(self) -> Any:
        """Return a copy without the training data, for storage.

        It predicts as before. Leave-one-out results and probabilities that were computed before
        are kept; others need the training data and are refused.

        Returns
        -------
        estimator
            The smaller model.
        """
        smaller = copy.copy(self)
        smaller._record_ = record_of(self).compact()  # type: ignore[attr-defined]
        return smaller
