"""Validation of a tuning request, and construction of its objective and starting points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.multiclass import check_classes, pair_factors, pair_rows
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import (
    canonical,
    check_fit,
    class_costs,
    require,
    require_number,
    scale_gamma,
)
from widemargin.estimators._base.inspection import has_threshold, kernel_for, sides_for
from widemargin.estimators._base.kernel import check_range
from widemargin.kernels import Kernel, Rows, is_mercer
from widemargin.kernels.objects.questions import (
    has_own_noise,
    log_parameters,
    with_log_parameters,
)
from widemargin.tuning.kernel_paths import (
    FixedPath,
    KernelPath,
    ObjectPath,
    PolyPath,
    ScalesPath,
    WidthPath,
    squared_distances,
)
from widemargin.tuning.landscape import COST_RANGE, Landscape, Point, Scale, Surface
from widemargin.tuning.smooth_loss import Pair

NAMES = ("C", "gamma", "ard")
LATENT_NAMES = ("gamma", "ard", "input_noise", "flip_noise", "mean_variance")
REGRESSION_NAMES = ("gamma", "ard", "amplitude", "noise")
CRITERIA = ("loo", "evidence")
WIDTHS = (0.1, 1.0, 10.0)  # starts: multiples of gamma="scale"
SCALES = (1.0, 2.0, 5.0)  # for one gamma per feature; noise features affect local kernels only
DENSE_ENTRIES = 20_000_000  # largest sparse X that is made dense for one gamma per feature


def is_latent(model: Any) -> bool:
    """Return whether an estimator is a Gaussian process, with noise instead of a cost."""
    return "input_noise" in getattr(model, "tunable", ())


def is_regression(model: Any) -> bool:
    """Return whether an estimator is a Gaussian process for real-valued targets."""
    return "noise" in getattr(model, "tunable", ())


def has_evidence(model: Any) -> bool:
    """Return whether an estimator is a Gaussian process, which has an evidence."""
    return is_latent(model) or is_regression(model)


def has_kernel_object(model: Any) -> bool:
    """Return whether the kernel of an estimator is an object with hyperparameters to tune."""
    return len(log_parameters(getattr(model, "kernel", None))) > 0


def check_names(params: Any, model: Any) -> frozenset[str]:
    """Validate the names of the parameters to tune; None selects the estimator's defaults."""
    known: tuple[str, ...] = NAMES
    default: tuple[str, ...] = ("C", "gamma")
    fix = 'a tuple of "C" and of "gamma" or "ard", for instance ("C", "gamma")'
    if is_latent(model):
        known, default = LATENT_NAMES, ("gamma", "input_noise")
        fix = (
            'a tuple of "gamma" or "ard", "input_noise", "flip_noise" and "mean_variance" for '
            f'{type(model).__name__}, for instance ("gamma", "input_noise")'
        )
    elif is_regression(model):
        known, default = REGRESSION_NAMES, ("gamma", "amplitude", "noise")
        fix = (
            'a tuple of "gamma" or "ard", "amplitude" and "noise" for '
            f'{type(model).__name__}, for instance ("gamma", "amplitude", "noise")'
        )
    if has_kernel_object(model):
        known = (*known, "kernel")
        # Other numbers that the user gave are kept: the object may have an amplitude or noise.
        rest = [name for name in default if name != "gamma"]
        if is_regression(model):
            rest = [name for name in rest if isinstance(getattr(model, name), str)]
        default = ("kernel", *rest)
        fix = f'{fix}; "kernel" are the hyperparameters of a kernel object'
    params = default if params is None else params
    good = isinstance(params, Collection) and not isinstance(params, str) and len(params) > 0
    require(good and all(name in known for name in params), "params", params, fix)
    require(not {"gamma", "ard"} <= set(params), "params", params,
            'without either "gamma" (one for all features) or "ard" (one for each)')  # fmt: skip
    alone = "kernel" not in params or not {"gamma", "ard"} & set(params)
    require(alone, "params", params, 'without either "kernel" or "gamma" and "ard"')
    return frozenset(params)


def check_machine(model: Any, names: frozenset[str]) -> None:
    """Raise ValueError if an estimator does not support tuning these parameters."""
    tunable = getattr(model, "tunable", ())
    if tunable == ("C",):
        fix = f'("C",) for {type(model).__name__}'
        require(names == {"C"}, "params", tuple(sorted(names)), fix)
        return
    if not tunable:
        raise ValueError(
            "estimator must be widemargin's SVC, LinearSVC, GPRegressor or MeanFieldGPClassifier, "
            f"or a Pipeline that ends in one; got {type(model).__name__}. Other estimators can be "
            "tuned by cross-validation (sklearn.model_selection.GridSearchCV)"
        )
    kernel = model.kernel
    if "ard" in names:
        require(kernel == "rbf", "kernel", kernel, '"rbf" for params with "ard"')
    if "gamma" in names:
        rest = '("input_noise",)' if is_latent(model) else '("C",)'
        rest = '("amplitude", "noise")' if is_regression(model) else rest
        fix = f'"rbf" or "poly" for params with "gamma"; with this kernel use params={rest}'
        require(kernel in ("rbf", "poly"), "kernel", kernel, fix)
    if kernel == "poly" and not Kernel("poly", 1.0, model.degree, model.coef0).is_mercer_by_name:
        fix = "a whole number, with coef0 >= 0: leave-one-out needs a positive semi-definite kernel"
        require(False, "degree", model.degree, fix)
    if is_latent(model) and "input_noise" not in names:
        fix = "positive, or among params: at 0 not every kernel has a solution"
        require_number("input_noise", model.input_noise, fix)
    for name in {"amplitude", "noise"} - names if is_regression(model) else ():
        require_number(name, getattr(model, name), "a number, or among params")


def check_criterion(criterion: Any, model: Any) -> None:
    """Reject unknown criteria, and the evidence for estimators that do not have one."""
    good = isinstance(criterion, str) and criterion in CRITERIA
    require(good, "criterion", criterion, 'one of "loo" (leave-one-out) and "evidence"')
    if criterion == "evidence" and not has_evidence(model):
        raise ValueError(
            f'criterion must be "loo" for {type(model).__name__}; got criterion="evidence". Its '
            "loss is not the logarithm of a probability of labels, so there is no evidence to "
            "maximise; GPRegressor and MeanFieldGPClassifier have one"
        )


class Task:
    """Validated tuning request: estimator, training set, parameters to tune, prior, criterion.

    The data are validated as in `fit`; the other arguments are those of `tune`, validated before.

    Attributes
    ----------
    most_rows, coarse_rows : int
        Maximum size of the tuning subsample, and size of the first subsample, which is used if
        there are more than twice as many samples.
    numeric : bool
        Whether the targets are real numbers.
    advice : str
        Remedy if the problem cannot be solved at any point.
    """

    most_rows = 2_000  # one evaluation takes about 0.25 s
    coarse_rows = 500
    numeric = False
    advice = "scale the features"

    def __init__(
        self,
        model: Any,
        names: frozenset[str],
        X: Any,
        y: Any,
        sample_weight: Any,
        prior: float,
        criterion: str = "loo",
    ) -> None:
        self.model, self.names, self.prior, self.criterion = model, names, prior, criterion
        precomputed = getattr(model, "kernel", None) == "precomputed"
        X, y, weight = check_fit(
            model, X, y, sample_weight, numeric=self.numeric, accept_sparse=not precomputed
        )
        if precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be the square kernel matrix; got shape {X.shape}")
        y = y.astype(np.float64) if self.numeric else y
        merge = not has_own_noise(getattr(model, "kernel", None))
        self.data = data = canonical(X, y, weight, precomputed=precomputed, merge=merge)
        self.read_targets()
        self.kernel = kernel_for(model, data.X, data.weight)
        check_range(Rows(self.kernel, data.X))

    def read_targets(self) -> None:
        """Store the class codes of the samples and the cost factors of the classes."""
        data = self.data
        classes, self.codes = check_classes(data.y)
        costs = getattr(self.model, "class_weight", None)
        self.factors = class_costs(costs, classes, self.codes, data.weight)

    @property
    def hinge(self) -> bool:
        """Whether the estimator has the hinge loss, for which C is chosen in a separate step."""
        return bool(getattr(self.model, "loss", None) == "hinge")

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw a stratified random subsample of at most about `size` samples."""
        n = len(self.codes)
        if n <= size:
            return np.arange(n)
        chosen = []
        for code in range(len(self.factors)):
            members = rng.permutation(np.flatnonzero(self.codes == code))
            chosen.append(members[: max(5, round(size * len(members) / n))])
        return np.sort(np.concatenate(chosen))

    def given(self, landscape: Surface) -> tuple[dict[str, float], FloatArray]:
        """Return the parameters by name and log gamma, with the values of the estimator."""
        raise NotImplementedError

    def landscape(self, rows: IntArray, observe: Callable[[Point], None]) -> Surface:
        """Return the objective on a subsample."""
        weight, codes = self.data.weight[rows], self.codes[rows]
        cost = weight * self.factors[codes]
        path, base = self.path(rows)
        intercept = has_threshold(self.model)
        parts: list[IntArray | None] = []
        pairs = []
        for pair in sides_for(self.model, len(self.factors)):
            chosen, label = pair_rows(codes, pair)
            own = weight * pair_factors(self.factors, codes, pair)
            parts.append(None if len(chosen) == len(codes) else chosen)
            pairs.append(Pair(label, weight[chosen], own[chosen], intercept))
        tune_cost = "C" in self.names or self.hinge
        scale = float(path.kernel(base).diagonal().mean()) * float(cost.mean())
        # The scale is zero if all samples are zero.
        C = 1.0 / (scale or 1.0) if tune_cost else float(self.model.C)
        scales = [Scale("C", C, COST_RANGE)] * tune_cost
        return Landscape(path, base, scales, {"C": C}, self.prior, observe, parts, pairs)

    def kernel_at(self, theta: FloatArray) -> Any:
        """Return the kernel object with other hyperparameters, given by their logarithms."""
        function: Any = self.kernel.function
        return with_log_parameters(function, theta)

    def path(self, rows: IntArray) -> tuple[KernelPath, FloatArray]:
        """Return the kernel as a function of log gamma, and the natural value of log gamma."""
        X, kernel = self.data.X, self.kernel
        if kernel.name == "precomputed":
            return self._fixed(X[np.ix_(rows, rows)]), np.empty(0)
        part = X[rows]
        if "kernel" in self.names:
            function: Any = kernel.function
            return ObjectPath(_dense(part), function), log_parameters(function)
        if "ard" in self.names:
            return ScalesPath(_dense(part)), _log_scales(_dense(X), self.data.weight)
        if "gamma" not in self.names:
            return self._fixed(Rows(kernel, part).matrix()), np.empty(0)
        base = np.log([scale_gamma(X, self.data.weight)])
        if kernel.name == "poly":
            products = np.asarray(Kernel("linear")(part, part), dtype=np.float64)
            return PolyPath(products, float(kernel.degree), float(kernel.coef0)), base
        return WidthPath(squared_distances(part)), base

    def _fixed(self, K: Any) -> FixedPath:
        K = np.ascontiguousarray(K, dtype=np.float64)
        if self.kernel.name not in ("rbf", "linear", "poly") and not is_mercer(K):
            raise ValueError(
                f"kernel={self.kernel.name!r} is not positive semi-definite on these rows "
                "(widemargin.kernels.is_mercer), and leave-one-out needs it to be; use a kernel "
                'that is, such as "rbf"'
            )
        return FixedPath(K)


def starting_points(task: Task, landscape: Surface, starts: Any) -> list[FloatArray]:
    """Return the starting coordinates: the user's, or multiples of the natural scale."""
    origin = np.zeros(len(landscape.bounds))
    offset = len(landscape.scales)
    origin[:offset] = [scale.start for scale in landscape.scales]
    if starts is None:
        one = not landscape.path.size or landscape.path.separate  # as given by the user
        factors = (1.0,) if one else SCALES if "ard" in task.names else WIDTHS
        points = []
        for factor in factors:
            x = origin.copy()
            x[offset : offset + 1] = np.log(factor)
            points.append(x)
        return points
    example = dict.fromkeys(landscape.fixed, 1.0) | {"gamma": 0.1}
    fix = f"a list of dicts such as [{example}], or None"
    good = isinstance(starts, Collection) and not isinstance(starts, str | Mapping) and len(starts)
    require(bool(good), "starts", starts, fix)
    return [_coordinates(landscape, origin, start, fix) for start in starts]


def _coordinates(landscape: Surface, origin: FloatArray, start: Any, fix: str) -> FloatArray:
    known = isinstance(start, Mapping) and set(start) <= {"gamma", *landscape.fixed}
    require(known, "starts", start, fix)
    x = origin.copy()
    scales = {scale.name: (place, scale) for place, scale in enumerate(landscape.scales)}
    for name in set(start) - {"gamma"}:
        require(name in scales, "starts", start, f'without "{name}", which is not tuned')
        place, scale = scales[name]
        # Bounds are not checked: `descend` clips its start to them.
        given = f'starts["{name}"]'
        if scale.shift:
            require_number(given, start[name], "a number, not negative", least=0.0)
        else:
            require_number(given, start[name], "a positive number")
        x[place] = scale.coordinate(float(start[name]))
    if "gamma" in start:
        offset = len(scales)
        has_gamma = landscape.path.size > 0 and not landscape.path.separate
        require(has_gamma, "starts", start, 'without "gamma", which is not tuned')
        gamma = np.asarray(start["gamma"], dtype=np.float64).ravel()
        good = len(gamma) in (1, landscape.path.size) and bool((gamma > 0).all())
        require(good, "starts", start, "positive gamma: one number or one for each feature")
        relative = np.log(gamma) - landscape.base
        x[offset] = relative.mean()
        x[offset + 1 :] = (relative - relative.mean())[: landscape.n_deltas]
    return x


def _dense(X: Matrix) -> FloatArray:
    if sp.issparse(X):
        if X.shape[0] * X.shape[1] > DENSE_ENTRIES:
            raise ValueError(
                f'X is sparse with {X.shape[1]} features: "ard" needs one gamma for each, on dense '
                'rows; use params=("C", "gamma") or fewer features'
            )
        X = X.toarray()
    return np.asarray(X, dtype=np.float64)


def _log_scales(X: FloatArray, weight: FloatArray) -> FloatArray:
    """Return log(1 / (n_features variance)) per feature; constant ones get the median variance."""
    share = weight / weight.sum()
    variance = share @ (X - share @ X) ** 2
    varies = variance > 1e-12 * max(float(variance.max()), 1e-300)
    variance[~varies] = np.median(variance[varies]) if varies.any() else 1.0
    return -np.log(X.shape[1] * variance)
