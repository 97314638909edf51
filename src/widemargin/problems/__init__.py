"""Statements of the optimisation problems: objectives, duals and certificates.

The module of a problem states its primal and dual; its dataclass evaluates the objectives and
certifies a solution. The algorithms are in :mod:`widemargin.solvers`.
"""
