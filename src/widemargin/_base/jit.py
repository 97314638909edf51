"""The one place that touches numba: how hot loops are compiled, cached and shared by threads.

Importing widemargin must not import numba (half a second), so a function decorated with
:func:`jit` stays plain Python until its first call. Compiled code is serial and releases the
GIL: parallelism is BLAS and Python threads above it, which any number of user threads can share.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeAlias, overload

_Function: TypeAlias = Callable[..., Any]
_compiling = threading.RLock()
_sources: dict[Any, set[str]] = {}  # the files whose code a compiled function holds

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
                sources = {self.function.__code__.co_filename}
                for name in self.function.__code__.co_names:
                    if isinstance(space.get(name), _LazyFunction):
                        space[name] = space[name].compile()
                    sources |= _sources.get(getattr(space.get(name), "py_func", None), set())
                _sources[self.function] = sources
                self.compiled = _dispatcher(self.function, sources, fast=self.fast)
                space[self.function.__name__] = self.compiled
        return self.compiled

    def __call__(self, *args: Any) -> Any:
        return (self.compiled or self.compile())(*args)


def _dispatcher(function: FunctionType, sources: set[str], *, fast: bool) -> Any:
    import numba

    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",  # a check for division by zero would keep loops from vectorising
        "fastmath": _STEERING_FLAGS if fast else False,
    }
    dispatcher = numba.njit(**options)(function)
    # Where no folder for the cache is writable (read-only install, no home): compile in memory.
    with suppress(RuntimeError, OSError):
        dispatcher._cache = _cache_class()(function, sources)
    return dispatcher


@functools.cache
def _cache_class() -> Any:
    """Return numba's cache, but one whose faults cost time and nothing else.

    A file that was cut short (a full disk, a power cut) would stop every fit, and so would a disk
    that fills up while compiled code is written to it. Such a file is dropped and the function
    compiled again; such a disk is no place for a cache.
    """
    from numba.core import caching

    numbas: Any = caching.FunctionCache  # untyped

    class ForgivingCache(numbas):
        def __init__(self, function: FunctionType, sources: set[str]) -> None:
            super().__init__(function)
            # numba watches the function's own file; compiled code holds that of its callees, too.
            stamps = [os.stat(path) for path in sorted(sources)]
            self._cache_file._source_stamp = [(s.st_mtime_ns, s.st_size) for s in stamps]

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # what a damaged pickle raises can be anything
                with suppress(OSError):
                    self.flush()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):
                super().save_overload(sig, data)

    return ForgivingCache


@overload
def jit(function: _Function, /) -> _Function: ...
@overload
def jit(*, fast: bool) -> Callable[[_Function], _Function]: ...
def jit(function: Any = None, /, *, fast: bool = False) -> Any:
    """Compile a module-level function of arrays and scalars at its first call.

    Parameters
    ----------
    function : callable
        A module-level function. It may call other decorated functions, also imported ones.
    fast : bool, default=False
        Let sums be reordered and assume no NaN. Only for loops that steer.
    """
    if function is None:
        return functools.partial(_LazyFunction, fast=fast)
    return _LazyFunction(function, fast=fast)
