"""The one place that touches numba: how hot loops are compiled, cached and shared by threads.

Importing widemargin must not import numba (half a second), so a function decorated with
:func:`jit` stays plain Python until its first call. Compiled code is serial and releases the
GIL: parallelism is BLAS and Python threads above it, which any number of user threads can share.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias, overload

_Function: TypeAlias = Callable[..., Any]
_compiling = threading.RLock()

# Loops that only steer a solver may reorder sums and assume no NaN, so that reductions
# vectorise. Whatever enters a certificate is compiled without these flags.
_STEERING_FLAGS = {"nnan", "nsz", "reassoc", "contract", "arcp"}


class _LazyFunction:
    """A Python function that becomes a numba dispatcher when it is first called."""

    def __init__(self, function: FunctionType, *, fast: bool) -> None:
        self.function = function
        self.fast = fast
        self.compiled: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def compile(self) -> Callable[..., Any]:
        """Return the numba dispatcher, made once; it takes this object's place in the module."""
        space = self.function.__globals__
        with _compiling:
            if self.compiled is None:
                # numba resolves callees when it compiles, so they must be dispatchers by then.
                for name in self.function.__code__.co_names:
                    if isinstance(space.get(name), _LazyFunction):
                        space[name].compile()
                self.compiled = _dispatcher(self.function, fast=self.fast)
                space[self.function.__name__] = self.compiled
        return self.compiled

    def __call__(self, *args: Any) -> Any:
        return (self.compiled or self.compile())(*args)


def _dispatcher(function: FunctionType, *, fast: bool) -> Callable[..., Any]:
    import numba

    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",  # a check for division by zero would keep loops from vectorising
        "fastmath": _STEERING_FLAGS if fast else False,
    }
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # No folder for the cache is writable (read-only install, no home): compile in memory.
        return numba.njit(**options)(function)


@overload
def jit(function: _Function, /) -> _Function: ...
@overload
def jit(*, fast: bool) -> Callable[[_Function], _Function]: ...
def jit(function: Any = None, /, *, fast: bool = False) -> Any:
    """Compile a module-level function of arrays and scalars at its first call.

    Parameters
    ----------
    function : callable
        A module-level function. It may call other decorated functions of its module.
    fast : bool, default=False
        Let sums be reordered and assume no NaN. Only for loops that steer.
    """
    if function is None:
        return functools.partial(_LazyFunction, fast=fast)
    return _LazyFunction(function, fast=fast)
