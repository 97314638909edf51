"""Lazy compilation of inner loops by numba, with a fault-tolerant cache.

No other module imports numba. Importing widemargin must not import it either (half a second), so a
function decorated with :func:`jit` stays plain Python until its first call. Compiled code is serial
and releases the GIL: parallelism comes from BLAS and from the Python threads that call it, so that
any number of user threads can fit models at the same time.
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
_sources: dict[Any, set[str]] = {}  # source files of a compiled function and its callees

# Loops that only guide a solver may reorder sums and assume the absence of NaN, so that reductions
# vectorise. Code whose results enter a certificate is compiled without these flags.
_STEERING_FLAGS = {"nnan", "nsz", "reassoc", "contract", "arcp"}


class _LazyFunction:
    """Python function that is replaced by a numba dispatcher at its first call."""

    def __init__(self, function: FunctionType, *, fast: bool) -> None:
        self.function = function
        self.fast = fast
        self.compiled: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def compile(self) -> Callable[..., Any]:
        """Return the numba dispatcher, created once, and bind it to the function's name."""
        space = self.function.__globals__
        with _compiling:
            if self.compiled is None:
                # numba resolves callees at compile time, so they must be dispatchers by then.
                sources = {self.function.__code__.co_filename}
                for name in self.function.__code__.co_names:
                    if isinstance(space.get(name), (_LazyFunction, _LazyExtreme)):
                        space[name] = space[name].compile()
                    sources |= _sources.get(getattr(space.get(name), "py_func", None), set())
                _sources[self.function] = sources
                self.compiled = _dispatcher(self.function, sources, fast=self.fast)
                space[self.function.__name__] = self.compiled
        return self.compiled

    def __call__(self, *args: Any) -> Any:
        return (self.compiled or self.compile())(*args)


class _LazyExtreme:
    """Maximum or minimum of two numbers as an instruction, so that loops with it vectorise.

    numba's `max` and conditional expressions compare and branch, which LLVM does not turn into a
    reduction. Uncompiled code calls Python's function.
    """

    def __init__(self, python: Callable[..., Any], instruction: str) -> None:
        self.python = python
        self.instruction = instruction
        self.compiled: Any = None

    def compile(self) -> Any:
        """Return numba's intrinsic, created once; Python's function if numba compiles nothing."""
        import numba

        if self.compiled is None:
            off = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
            self.compiled = self.python if off else _intrinsic(self.instruction)
        return self.compiled

    def __call__(self, *args: Any) -> Any:
        return self.python(*args)


def _intrinsic(instruction: str) -> Any:
    """Return an LLVM instruction on two floating-point numbers of one type as a numba function."""
    from llvmlite import ir
    from numba.extending import intrinsic

    def typing_of(_context: Any, a: Any, b: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            real = args[0].type
            kind = ir.FunctionType(real, [real, real])
            function = builder.module.declare_intrinsic(instruction, [real], kind)
            return builder.call(function, args, fastmath=("fast",))

        return a(a, b), generate

    return intrinsic(typing_of)


maximum = _LazyExtreme(max, "llvm.maxnum")
minimum = _LazyExtreme(min, "llvm.minnum")


def _dispatcher(function: FunctionType, sources: set[str], *, fast: bool) -> Any:
    import numba

    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",  # a check for division by zero would keep loops from vectorising
        "fastmath": _STEERING_FLAGS if fast else False,
    }
    dispatcher = numba.njit(**options)(function)
    # Without a writable cache folder (read-only install, no home directory), compile in memory.
    with suppress(RuntimeError, OSError):
        dispatcher._cache = _cache_class()(function, sources)
    return dispatcher


@functools.cache
def _cache_class() -> Any:
    """Return a subclass of numba's function cache that tolerates I/O errors.

    With numba's own class, a truncated cache file (full disk, power failure) would make every fit
    fail, and so would a disk that fills up while compiled code is written. Here a damaged file is
    deleted and the function recompiled, and a failed write is ignored.
    """
    from numba.core import caching

    numbas: Any = caching.FunctionCache  # untyped

    class ForgivingCache(numbas):
        def __init__(self, function: FunctionType, sources: set[str]) -> None:
            super().__init__(function)
            # numba checks the function's own file only, but callees may be inlined from others.
            stamps = [os.stat(path) for path in sorted(sources)]
            self._cache_file._source_stamp = [(s.st_mtime_ns, s.st_size) for s in stamps]

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # a damaged pickle can raise any exception
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
        A module-level function. It may call other decorated functions, including imported ones.
    fast : bool, default=False
        Allow sums to be reordered and assume the absence of NaN. Only for loops whose results do
        not enter a certificate.
    """
    if function is None:
        return functools.partial(_LazyFunction, fast=fast)
    return _LazyFunction(function, fast=fast)
