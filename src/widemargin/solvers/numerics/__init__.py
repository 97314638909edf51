"""Numerical methods shared by several solvers.

===================  ==========================================================================
box_qp               quadratic programs with box constraints, at most two equality constraints
                     and a low-rank quadratic term; `box_qp_interior` and `box_qp_finish` are
                     its two stages, `box_qp_nested` screens the variables of large ones
box_qp_interior      Mehrotra's interior-point method for these and for small dense programs
conjugate_gradients  positive definite linear systems, preconditioned
highs                linear programs (HiGHS)
pivoted_cholesky     low-rank approximation of a kernel matrix
data_products        products with dense and sparse data matrices
===================  ==========================================================================
"""
