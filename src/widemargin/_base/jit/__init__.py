"""Lazy compilation of inner loops by numba, with a fault-tolerant cache.

No module outside this package imports numba. Importing widemargin must not import it either (half a
second), so a function decorated with :func:`jit` stays plain Python until its first call. Compiled
code is serial and releases the GIL: parallelism comes from BLAS and from the Python threads that
call it, so that any number of user threads can fit models at the same time.

By itself, numba optimises and emits every function on its own, and again within each of its
callers. Here a function that compiled code calls is *linked only*: its code is added to that of its
caller, and optimised, emitted and cached with the function that Python calls. Where numba's
internals do not allow this, functions are compiled in numba's way.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias, overload

_Function: TypeAlias = Callable[..., Any]
_compiling = threading.RLock()

# Loops that only guide a solver may reorder sums and assume the absence of NaN, so that reductions
# vectorise. Code whose results enter a certificate is compiled without these flags.
_STEERING_FLAGS = {"nnan", "nsz", "reassoc", "contract", "arcp"}

observers: list[Callable[[str], None]] = []
"""Called with a message when the compilation of a function starts, with "" when it ends."""


class _LazyFunction:
    """Python function with two numba dispatchers, each created when it is first needed.

    `outer` is for calls from Python and cached; `inner` is for calls from compiled code.
    """

    linking = True  # set to False for all functions if it fails once

    def __init__(self, function: FunctionType, *, fast: bool) -> None:
        self.function = function
        self.fast = fast
        self.outer: Callable[..., Any] | None = None
        self.inner: Any = None
        self.inner_is_linked = False
        functools.update_wrapper(self, function)

    def compile(self) -> Callable[..., Any]:
        """Return the dispatcher for calls from Python."""
        with _compiling:
            if self.outer is None:
                self.outer = _outer_dispatcher(self)
        return self.outer

    def __call__(self, *args: Any) -> Any:
        return (self.outer or self.compile())(*args)

    @property
    def _numba_type_(self) -> Any:
        """Type of this object among the globals of a compiled function.

        numba holds its own lock then, so that only one thread is here at a time.
        """
        from numba.core import types

        if self.inner is None or self.inner_is_linked != _LazyFunction.linking:
            self.inner_is_linked = _LazyFunction.linking
            self.inner = _inner_dispatcher(self)
        return types.Dispatcher(self.inner)

    def with_callees(self) -> list[_LazyFunction]:
        """Return this function and all that are compiled into it."""
        found = [self]
        for one in found:  # grows on the way
            for value in _globals_of(one.function).values():
                if isinstance(value, _LazyFunction) and value not in found:
                    found.append(value)
        return found


def _globals_of(function: FunctionType) -> dict[str, Any]:
    space = function.__globals__
    return {name: space[name] for name in function.__code__.co_names if name in space}


def _outer_dispatcher(lazy: _LazyFunction) -> Any:
    """Return the dispatcher for calls from Python."""
    with _no_collections():
        _load_numba()
    import numba

    config: Any = numba.config
    if config.DISABLE_JIT:
        return lazy.function
    njit: Any = numba.njit  # the types of its options are incomplete
    dispatcher = njit(**_options(lazy), pipeline_class=_pipelines()[0])(lazy.function)
    # Without a writable cache folder (read-only install, no home directory), compile in memory.
    with suppress(RuntimeError, OSError):
        dispatcher._cache = _cache_class()(lazy.function, _stamp(lazy))
    return dispatcher


def _inner_dispatcher(lazy: _LazyFunction) -> Any:
    """Return the dispatcher for calls from compiled code."""
    import numba
    from numba.core import types

    njit: Any = numba.njit
    if not _LazyFunction.linking:
        return njit(**_options(lazy))(lazy.function)
    linked_only = {"no_cpython_wrapper": True, "pipeline_class": _pipelines()[1]}
    dispatcher = njit(**_options(lazy), **linked_only)(lazy.function)
    plain, unliteral = dispatcher.get_call_template, types.unliteral

    def get_call_template(args: Any, kws: Any) -> Any:
        # numba gives a count that starts at 0 the type of the number 0, and would compile its
        # callees for this type and once more for int64.
        return plain(tuple(map(unliteral, args)), kws)

    dispatcher.get_call_template = get_call_template
    return dispatcher


def _options(lazy: _LazyFunction) -> dict[str, Any]:
    return {
        "nogil": True,
        "error_model": "numpy",  # a check for division by zero would keep loops from vectorising
        "fastmath": _STEERING_FLAGS if lazy.fast else False,
        "no_cfunc_wrapper": True,
    }


# --------------------------------------------------------------------------------- compilation


@functools.cache
def _load_numba() -> None:
    """Import numba, and what it imports when it compiles for the first time."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Pause the garbage collector, which finds nothing while numba creates millions of objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _observed() -> Iterator[None]:
    """Tell the observers that compilation starts and ends."""
    for tell in list(observers):
        tell("compiling (once)")
    try:
        yield
    finally:
        for tell in list(observers):
            tell("")


@functools.cache
def _pipelines() -> tuple[Any, Any]:
    """Return numba pipelines for functions that Python calls, and for those that are linked only.

    numba documents the pipelines; the libraries, which hold the code, are its internals.
    """
    from numba.core import compiler

    plain: Any = compiler.Compiler  # untyped
    compile_anew: Any = compiler.compile_extra

    class Whole(plain):
        """Compile a function that Python calls, with all that it calls in turn."""

        def compile_extra(self, function: Any) -> Any:
            state = self.state
            again = (state.typingctx, state.targetctx, function, state.args, state.return_type)
            with _no_collections(), _observed():
                try:
                    if not _LazyFunction.linking:
                        return super().compile_extra(function)
                    _use_library(self.state, _libraries()[0], function)
                    return super().compile_extra(function)
                except Exception:
                    # Either numba's internals have changed, or the function is wrong.
                    linked, _LazyFunction.linking = _LazyFunction.linking, False
                    if not linked:
                        raise
                    try:
                        return compile_anew(*again, state.flags, state.locals)
                    except Exception:
                        _LazyFunction.linking = True
                        raise

    class Linked(plain):
        """Compile a function that only compiled code calls."""

        def compile_extra(self, function: Any) -> Any:
            _use_library(self.state, _libraries()[1], function)
            return super().compile_extra(function)

    return Whole, Linked


def _use_library(state: Any, library: Any, function: Any) -> None:
    """Let a pipeline put its code into a library of the given class."""
    state.library = library(state.targetctx.codegen(), function.__qualname__)
    state.library.enable_object_caching()


@functools.cache
def _libraries() -> tuple[Any, Any]:
    """Return classes of code libraries: whole ones, and those that are linked only."""
    from numba.core import codegen, environment

    numbas: Any = codegen.JITCodeLibrary  # untyped
    lookup: Any = environment.lookup_environment

    class Whole(numbas):
        """Code that Python calls."""

        def _finalize_specific(self) -> None:
            super()._finalize_specific()
            # Linked functions have no address at which numba could set their environment.
            for variable in self._final_module.global_variables:
                found = lookup(variable.name)
                if found is not None:
                    self._codegen.set_env(variable.name, found)

    class Linked(numbas):
        """Code that is neither optimised nor emitted, since its callers contain it."""

        @property
        def codegen(self) -> Any:
            return _WithoutAddresses(self._codegen)

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    return Whole, Linked


class _WithoutAddresses:
    """numba's code generator, for a library whose functions have no address."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: see `Whole._finalize_specific`."""


# --------------------------------------------------------------------------------------- cache


def _stamp(lazy: _LazyFunction) -> bytes:
    """Return a digest of everything that the compiled code of a function depends on.

    numba checks the function's own file only, but callees are compiled into it, and so are
    constants, which may come from other modules. Contents are compared, not times, so that a
    reinstallation of the same version keeps its cache.
    """
    functions = [one.function for one in lazy.with_callees()]
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted({function.__code__.co_filename for function in functions}):
        digest.update(Path(path).read_bytes())
    for function in functions:
        for name, value in _globals_of(function).items():
            if isinstance(value, bool | int | float | complex | str | tuple):
                digest.update(f"{name} = {value!r}\n".encode())
            elif hasattr(value, "tobytes"):  # an array
                digest.update(value.tobytes())
    return digest.digest()


@functools.cache
def _cache_class() -> Any:
    """Return a subclass of numba's function cache that tolerates I/O errors and other processes.

    With numba's own class, a truncated cache file (full disk, power failure) would make every fit
    fail, and so would a disk that fills up while compiled code is written; two processes that
    compile the same function for different types could each load the code of the other. Here each
    signature has a file of its own, which contains all that it is valid for and its checksum. A
    damaged file is replaced, and a failed write is ignored.
    """
    from numba import __version__
    from numba.core import caching

    numbas: Any = caching.FunctionCache  # untyped
    numbas_files: Any = caching.IndexDataCacheFile

    class Files(numbas_files):
        """The files of one function."""

        def _file(self, key: Any) -> Path:
            digest = hashlib.sha256(repr(key[:2]).encode()).hexdigest()
            return Path(self._data_path(self._data_name(int(digest[:12], 16))))

        def _head(self, content: bytes) -> bytes:
            valid = __version__.encode() + self._source_stamp
            return valid + hashlib.sha256(content).digest()

        def load(self, key: Any) -> Any:
            try:
                whole = self._file(key).read_bytes()
            except FileNotFoundError:
                return None
            start = len(self._head(b""))
            content = whole[start:]
            if whole[:start] != self._head(content):
                return None
            compiled_for, data = pickle.loads(content)
            return data if compiled_for == key else None

        def save(self, key: Any, data: Any) -> None:
            content = self._dump((key, data))
            with self._open_for_write(str(self._file(key))) as file:
                file.write(self._head(content) + content)

    class ForgivingCache(numbas):
        def __init__(self, function: FunctionType, stamp: bytes) -> None:
            super().__init__(function)
            self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # unpickling can raise any exception
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
