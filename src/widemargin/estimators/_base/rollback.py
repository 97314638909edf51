"""Make `fit` atomic: restore the estimator's attributes if it raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

_Self = TypeVar("_Self")
_Arguments = ParamSpec("_Arguments")
_Fitted = TypeVar("_Fitted")


def whole_fit(
    fit: Callable[Concatenate[_Self, _Arguments], _Fitted],
) -> Callable[Concatenate[_Self, _Arguments], _Fitted]:
    """Decorate `fit` so that the estimator's attributes are restored if it raises.

    ``fit`` sets its attributes one by one. Interrupted by Ctrl-C, an error or a warning turned
    into an error, it would leave a mixture of two fits that still predicts.
    """

    @functools.wraps(fit)
    def fit_or_restore(
        self: _Self, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Fitted:
        attributes: dict[str, Any] = vars(self)
        before = dict(attributes)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            attributes.clear()
            attributes.update(before)
            raise

    return fit_or_restore
