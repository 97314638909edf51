"""Restore an estimator whose fit fails: a fit happens as a whole or not at all."""

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
    """Restore the attributes of an estimator if its fit raises.

    ``fit`` learns one attribute after the other. Ctrl-C, an error or a warning that is treated as
    one would leave some of the new fit beside some of the old: a mixture that predicts.
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
