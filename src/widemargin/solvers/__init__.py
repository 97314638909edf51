"""Solve the problems of :mod:`widemargin.problems`: one package for each, one door into each.

The door of a package is ``solve(problem, data, *, tol, budget, start=None, method="auto")``, see
:mod:`widemargin.solvers.base`. A package has the name of its problem; its own page explains its
methods. Nothing outside a package imports its inner modules, and no solver knows an estimator.

===============  =================================================  ============================
package          methods, and when "auto" takes them                estimators
===============  =================================================  ============================
soft_margin      active set from growing samples: always, but       SVC, NuSVC, SVR, NuSVR
                 for the C-hinge of a linear kernel, dense samples
                 n >= max(500, 5 d) and d <= 100: that of
                 out_of_core on samples in memory. "smo": active
                 set from zero. "sampling": samples that violators
                 join. "adatron": never
linear           "smoothed_newton": always, but for the hinge of    LinearSVC; MaxMarginClassifier
                 dense samples, n >= 500,000 and d <= 30:           with norm=2
                 "out_of_core"
out_of_core      "implicit" (exact): hinge and hulls.               LinearSVC on data in parts
                 "newton": squared hinge
reduced_hull     "qp": linear kernel, dense, d <= 100 and           ReducedHullSVC, TubeSVR
                 n <= 5,000. "implicit": the same, more samples.
                 "smo": all others. "sampling": never
linear_program   "interior": n >= 2,500 and a kernel matrix of low  LOOSVC, AdaptiveMarginSVC,
                 rank. "simplex": all others                        LPSVC, NuLPSVC
norm_margin      by the norm p and C: linear programs (HiGHS) for   MaxMarginClassifier
                 1 and inf; those of linear and reduced_hull for
                 2; power cones (Clarabel) for any other
preference       by the data: "features", the linear machine;       OrdinalSVC
                 "rows", any kernel, and d > 500 features of
                 n <= min(2,000, d) samples. norm=1: a linear
                 program at the end
cumulative       Newton's method. "matrix": d <= 300 or             CumulativeLinkClassifier
                 d <= n <= 1,500. "gram": all others with
                 n <= 1,500. "conjugate_gradients": else
mean_field       "newton_cg": n > 200 and input noise of 1 % of     MeanFieldGPClassifier
                 the kernel's diagonal or more. "newton": else.
                 "table": never. inference="ep" has no choice
boosting         "adaboost": C = 0. "adaboost_reg": C > 0           AdaBoostClassifier
rbf_net          k-means, then conjugate gradients                  RBFNetClassifier
leave_one_out    exact paths; the first-order response where the    all that keep a soft_margin
                 kernel matrix does not fit into memory             problem
literature       historical algorithms, never taken by "auto":      PerceptronClassifier; SVC,
                 perceptron, adatron (soft_margin),                 ReducedHullSVC and
                 random_sampling (reduced_hull),                    MeanFieldGPClassifier by
                 mean_field_table (mean_field)                      their parameter solver
numerics         shared by the packages above: box-constrained      --
                 quadratic programs, conjugate gradients, linear
                 programs, pivoted Cholesky, data products
===============  =================================================  ============================

n is the number of samples, d of features.
"""
