"""Solvers for the problems of :mod:`widemargin.problems`, one package per problem.

The public function of each package is
``solve(problem, data, *, tol, budget, start=None, method="auto")``, see
:mod:`widemargin.solvers.base`. A package is named after its problem, and its docstring describes
its methods. Nothing outside a package imports its inner modules, and no solver depends on an
estimator.

===============  =================================================  ============================
package          methods, and when "auto" selects them              estimators
===============  =================================================  ============================
soft_margin      active set, warm-started from subsamples that      SVC, NuSVC, SVR, NuSVR,
                 double: always, except for the C-hinge with a      OneClassSVM
                 linear kernel, dense samples, n >= max(500, 5 d)
                 and d <= 100 (out_of_core on samples in memory),
                 and for the epsilon-tube with a linear kernel and
                 n >= max(200, 2 d) (smoothed Newton of linear).
                 "smo": active set from zero. "sampling": active
                 set from a subsample to which violators are
                 added. "adatron": never
linear           "coordinate_descent": sparse samples, and the      LinearSVC, LinearSVR;
                 hinge with at most 3,000 values. "out_of_core":    MaxMarginClassifier with norm=2
                 the hinge with dense samples, n >= 500,000 and
                 d <= 30. Otherwise "smoothed_newton"
l1_margin        proximal Newton steps on working sets of features  LinearSVC with penalty="l1"
crammer_singer   Newton's method on a smoothed loss                 LinearSVC with
                                                                    multi_class="crammer_singer"
out_of_core      "implicit": hinge and hulls.                       LinearSVC on data in parts
                 "newton": squared hinge
reduced_hull     "qp": linear kernel, dense, d <= 100 and           ReducedHullSVC, TubeSVR
                 n <= 5,000. "implicit": the same, more samples.
                 "smo": all others. "sampling": never
linear_program   "interior": n >= 2,500 and a kernel matrix of low  LOOSVC, AdaptiveMarginSVC,
                 rank. "simplex": all others. Squared slack:        LPSVC, NuLPSVC
                 Newton steps from the linear program's optimum
norm_margin      by the norm p and C: linear programs (HiGHS) for   MaxMarginClassifier
                 1 and inf; the solvers of linear and reduced_hull
                 for 2; power cones (Clarabel) for any other
preference       by the data: "features" for a linear kernel;       OrdinalSVC
                 "rows" for any other kernel, and for d > 500
                 features with n <= min(2,000, d) samples.
                 norm=1: followed by a linear program
cumulative       Newton's method. "matrix": d <= 300 or             CumulativeLinkClassifier
                 d <= n <= 1,500. "gram": all others with
                 n <= 1,500. "conjugate_gradients": otherwise
mean_field       "newton_cg": n > 200 and input noise of at least   MeanFieldGPClassifier
                 1 % of the kernel's diagonal. "newton": otherwise.
                 "table", "sweeps": never
boosting         "adaboost": C = 0. "adaboost_reg": C > 0           AdaBoostClassifier
lp_boosting      column generation with interior-point steps         LPBoostClassifier
rbf_net          k-means, then conjugate gradients                  RBFNetClassifier
gp_regression    "cholesky": two n x n matrices fit into memory.    GPRegressor
                 "low_rank": otherwise
leave_one_out    exact solution paths; the first-order response     all that keep a soft_margin
                 if the kernel matrix does not fit into memory      problem
literature       historical algorithms, never chosen by "auto":     PerceptronClassifier; SVC,
                 perceptron, adatron (soft_margin),                 ReducedHullSVC and
                 random_sampling (reduced_hull),                    MeanFieldGPClassifier by
                 mean_field_table (mean_field)                      their parameter solver
numerics         shared by the packages above: box-constrained      --
                 quadratic programs, conjugate gradients, linear
                 programs, pivoted Cholesky, data products
===============  =================================================  ============================

n is the number of samples, d the number of features.
"""
