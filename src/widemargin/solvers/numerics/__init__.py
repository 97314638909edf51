"""Numerical methods that several solvers share.

===================  ==========================================================================
box_qp               quadratic programs with a box, few sums and a low-rank quadratic term;
                     `box_qp_interior` and `box_qp_finish` are its two stages,
                     `box_qp_nested` solves many rows
box_qp_interior      Mehrotra's method for these, and for small programs with a dense matrix
conjugate_gradients  positive definite linear systems, preconditioned
highs                linear programs
pivoted_cholesky     low-rank approximation of a kernel matrix
data_products        products with dense and sparse rows
===================  ==========================================================================
"""
