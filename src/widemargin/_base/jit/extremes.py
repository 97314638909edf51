"""Maximum and minimum of two numbers as instructions, for loops compiled by :func:`jit`.

numba's `max` and conditional expressions compare and branch, which LLVM does not turn into a vector
reduction; these it does. The arguments are two floating-point numbers of one type, not NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Extreme:
    """Function that compiled code replaces by an LLVM instruction; Python calls a plain one."""

    def __init__(self, python: Callable[..., Any], instruction: str) -> None:
        self.python = python
        self.instruction = instruction
        self.compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        return self.python(*args)

    @property
    def _numba_type_(self) -> Any:
        """Type of this object among the globals of a compiled function."""
        from numba.core.registry import cpu_target

        if self.compiled is None:
            self.compiled = _intrinsic(self.instruction)
            cpu_target.typing_context.refresh()  # registers it
        return cpu_target.typing_context.resolve_value_type(self.compiled)


def _intrinsic(instruction: str) -> Any:
    """Return an LLVM instruction on two numbers as a numba function."""
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


maximum = Extreme(max, "llvm.maxnum")
minimum = Extreme(min, "llvm.minnum")
