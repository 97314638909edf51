"""Pictures hold what the models say, on both backends."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import plotly.graph_objects as go
import pytest
from matplotlib.axes import Axes
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    SVR,
    AdaptiveMarginSVC,
    LinearSVC,
    LOOSearch,
    MeanFieldGPClassifier,
    NuLPSVC,
    NuSVC,
    OrdinalSVC,
    ReducedHullSVC,
    loo,
    plot,
    tune,
)

CLASSES = ["ash", "birch", "cedar"]
MACHINES = {
    "SVC": SVC(C=10),
    "NuSVC": NuSVC(),
    "LinearSVC": LinearSVC(),
    "ReducedHullSVC": ReducedHullSVC(kernel="rbf"),
    "LOOSVC": LOOSVC(),
    "AdaptiveMarginSVC": AdaptiveMarginSVC(),
    "LPSVC": LPSVC(),
    "NuLPSVC": NuLPSVC(),
    "OrdinalSVC": OrdinalSVC(classes=[0, 1, *CLASSES]),
    "MeanFieldGPClassifier": MeanFieldGPClassifier(),
}
BACKENDS = ["matplotlib", "plotly"]


@pytest.fixture(autouse=True)
def _without_a_screen():
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def moons(n=60):
    return make_moons(n, noise=0.25, random_state=0)


def blobs(n=60):
    X, y = make_blobs(n, centers=3, cluster_std=1.8, random_state=2)
    return X, np.array(CLASSES)[y]


def named(picture):
    """The points of each named trace, from either backend."""
    if isinstance(picture, go.Figure):
        traces = [t for t in picture.data if t.name and t.mode and "markers" in t.mode]
        return {t.name: np.column_stack([t.x, t.y]).astype(float) for t in traces}
    found = [c for c in picture.collections if not c.get_label().startswith("_")]
    return {c.get_label(): np.asarray(c.get_offsets()) for c in found}


def same_rows(points, rows):
    return np.array_equal(np.sort(points, axis=0), np.sort(rows, axis=0))


# -- decision_boundary ---------------------------------------------------------------------------


@pytest.mark.parametrize("data", [moons, blobs], ids=["two", "three"])
@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_has_a_boundary(name, data):
    X, y = data()
    model = MACHINES[name].fit(X, y)
    for backend in BACKENDS:
        picture = plot.decision_boundary(model, X, y, backend=backend, resolution=12)
        points = named(picture)
        for label in model.classes_:
            assert same_rows(points[str(label)], X[y == label])
        other = plot.decision_boundary(model, X + 0.1, y, backend=backend, resolution=12)
        wrong = model.predict(X + 0.1) != y
        crossed = named(other).get("wrong", np.empty((0, 2)))
        assert same_rows(crossed, (X + 0.1)[wrong])
        assert "support vector" not in named(other)


@pytest.mark.parametrize("data", [moons, blobs], ids=["two", "three"])
@pytest.mark.parametrize("name", MACHINES)
def test_training_rows_are_those_that_the_model_kept(name, data):
    X, y = data()
    model = MACHINES[name].fit(X, y)
    points = named(plot.decision_boundary(model, backend="plotly", resolution=12))
    assert same_rows(points["wrong when left out"], X[loo.result(model).errors])
    rings = points["support vector"]
    assert 0 < len(rings) <= len(X)
    if hasattr(model, "support_"):
        size = np.abs(model.dual_coef_).max(axis=0)
        more_than_rounding = size > 1e-15 * size.max()
        assert same_rows(rings, X[model.support_[more_than_rounding]])
    given = named(plot.decision_boundary(model, X, y, backend="matplotlib", resolution=12))
    assert all(same_rows(given[label], points[label]) for label in points)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lines_are_where_the_decision_function_has_its_values(backend):
    X, y = moons()
    model = SVC(C=10).fit(X, y)
    picture = plot.decision_boundary(model, backend=backend, resolution=200)
    if backend == "plotly":
        heat, *lines = [t for t in picture.data if t.type in ("heatmap", "contour")]
        points = np.stack(np.meshgrid(heat.x, heat.y), axis=-1).reshape(-1, 2)
        values = model.decision_function(points)
        assert [t.contours.start for t in lines] == [-1, 0, 1]
        for line in lines:
            assert np.ravel(line.z) == pytest.approx(values, rel=1e-5, abs=1e-5)
        assert np.ravel(heat.z) == pytest.approx(values / (1 + np.abs(values)), abs=1e-5)
        return
    lines = [c for c in picture.collections if hasattr(c, "levels")]
    assert [float(c.levels[0]) for c in lines] == [-1, 0, 1]
    for line in lines:
        ends = np.concatenate([path.vertices for path in line.get_paths()])
        assert model.decision_function(ends) == pytest.approx(float(line.levels[0]), abs=0.02)


@pytest.mark.parametrize("machine", [SVC(C=5), LOOSVC(), OrdinalSVC()], ids=repr)
def test_regions_are_those_of_predict(machine):
    X, y = blobs(90)
    model = machine.fit(X, np.unique(y, return_inverse=True)[1])
    figure = plot.decision_boundary(model, backend="plotly", resolution=40)
    heat, *lines = [t for t in figure.data if t.type in ("heatmap", "contour")]
    points = np.stack(np.meshgrid(heat.x, heat.y), axis=-1).reshape(-1, 2)
    predicted = model.predict(points)
    assert np.array_equal(np.ravel(heat.z), predicted)
    assert len(lines) == 3
    for k, line in enumerate(lines):  # the line of a class surrounds its region
        assert np.array_equal(np.ravel(line.z) > 0, predicted == k)


def test_rings_grow_with_the_coefficients():
    X, y = moons()
    model = SVC(C=2).fit(X, y)
    figure = plot.decision_boundary(model, backend="plotly", resolution=12)
    ring = next(t for t in figure.data if t.name == "support vector")
    size = np.zeros(len(X))
    size[model.support_] = np.abs(model.dual_coef_[0])
    order = [
        np.flatnonzero((place == X).all(axis=1))[0] for place in np.column_stack([ring.x, ring.y])
    ]
    assert np.array_equal(np.argsort(ring.marker.size), np.argsort(size[order]))


def test_linear_machines_have_rings_too():
    X, y = moons()
    model = LinearSVC(loss="hinge", C=3, tol=1e-8).fit(X, y)
    kernel = SVC(C=3, kernel="linear", tol=1e-8).fit(X, y)
    rings = named(plot.decision_boundary(model, backend="plotly", resolution=12))["support vector"]
    assert same_rows(rings, X[kernel.support_])


def test_rows_without_weight_are_left_out():
    X, y = moons()
    weight = np.ones(len(X))
    weight[:5] = 0
    model = SVC().fit(X, y, sample_weight=weight)
    for rows in ((), (X, y)):
        points = named(plot.decision_boundary(model, *rows, backend="plotly", resolution=12))
        assert len(points["0"]) + len(points["1"]) == 55
        assert same_rows(points["wrong when left out"], X[5:][loo.result(model).errors[5:]])


def test_marks_can_be_left_out_and_axes_given():
    import matplotlib.pyplot as plt

    X, y = moons()
    model = SVC().fit(X, y)
    _, ax = plt.subplots()
    assert plot.decision_boundary(model, ax=ax, marks=False, resolution=12) is ax
    assert set(named(ax)) == {"0", "1"}
    assert isinstance(plot.decision_boundary(model, resolution=12), Axes)
    assert ax.get_xlabel() == "input 1"


def test_two_of_more_inputs_the_others_at_their_mean():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    figure = plot.decision_boundary(model, features=(3, 1), backend="plotly", resolution=9)
    heat = figure.data[0]
    across, up = np.meshgrid(heat.x, heat.y)
    points = np.tile(X.mean(axis=0), (81, 1))
    points[:, 3], points[:, 1] = across.ravel(), up.ravel()
    assert np.array_equal(np.ravel(heat.z), model.predict(points))
    assert same_rows(named(figure)["0"], X[y == 0][:, [3, 1]])
    assert figure.layout.xaxis.title.text == "input 4"


def test_pipelines_are_drawn_in_the_inputs_of_the_user():
    X, y = moons()
    X = X * [100, 0.01] + 7
    model = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    kept = plot.decision_boundary(model, backend="plotly", resolution=12)
    given = plot.decision_boundary(model, X, y, backend="plotly", resolution=12)
    assert named(kept)["0"] == pytest.approx(named(given)["0"])
    assert "wrong when left out" in named(given)
    line = given.data[2]
    points = np.stack(np.meshgrid(line.x, line.y), axis=-1).reshape(-1, 2)
    assert np.ravel(line.z) == pytest.approx(model.decision_function(points), rel=1e-5, abs=1e-5)


def test_data_frames_name_the_axes():
    pandas = pytest.importorskip("pandas")
    X, y = moons()
    frame = pandas.DataFrame(X, columns=["width", "cost in $"])
    for model in (SVC(), make_pipeline(StandardScaler(), SVC())):
        model.fit(frame, y)
        ax = plot.decision_boundary(model, frame, y, resolution=9)
        assert ax.get_xlabel() == "width"
        assert ax.get_ylabel() == r"cost in \$"
        assert "wrong when left out" in named(ax)
        assert plot.decision_boundary(model, resolution=9).get_xlabel() == "width"


def test_labels_stay_text():
    X, y = moons()
    model = SVC().fit(X, np.array(["<b>bold</b>", "$a$"])[y])
    figure = plot.decision_boundary(model, backend="plotly", resolution=9)
    assert {"&lt;b&gt;bold&lt;/b&gt;", "$a$"} <= {t.name for t in figure.data}
    ax = plot.decision_boundary(model, resolution=9)
    ax.figure.canvas.draw()  # a formula of the label would fail or be set as one
    assert r"\$a\$" in {text.get_text() for text in ax.get_legend().get_texts()}


def test_what_cannot_be_drawn_says_why():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match=r"features=\(i, j\)"):
        plot.decision_boundary(model)
    for features in [(0, 0), (0, 4), (1,), "ab", (0.0, 1)]:
        with pytest.raises(ValueError, match="two different columns of X"):
            plot.decision_boundary(model, features=features)
    with pytest.raises(ValueError, match="y must be given together with X"):
        plot.decision_boundary(model, X)
    with pytest.raises(ValueError, match="one label a row of X"):
        plot.decision_boundary(model, X, y[:-1], features=(0, 1))
    with pytest.raises(ValueError, match='backend must be "matplotlib" or "plotly"'):
        plot.decision_boundary(model, features=(0, 1), backend="bokeh", resolution=9)
    with pytest.raises(ValueError, match='ax must be None for backend="plotly"'):
        plot.decision_boundary(model, features=(0, 1), backend="plotly", ax=1, resolution=9)
    with pytest.raises(ValueError, match="ax must be axes of Matplotlib"):
        plot.decision_boundary(model, features=(0, 1), ax=1, resolution=9)
    with pytest.raises(ValueError, match="resolution must be"):
        plot.decision_boundary(model, features=(0, 1), resolution=1)
    with pytest.raises(ValueError, match="a fitted classifier"):
        plot.decision_boundary(SVR().fit(X, y), features=(0, 1))
    with pytest.raises(ValueError, match="no inputs to draw"):
        plot.decision_boundary(SVC(kernel="precomputed").fit(X @ X.T, y), features=(0, 1))
    with pytest.raises(ValueError, match="compact"):
        plot.decision_boundary(model.compact(), features=(0, 1))
    pipeline = make_pipeline(RBFSampler(random_state=0), SVC()).fit(X, y)
    with pytest.raises(ValueError, match="needs X and y for this pipeline"):
        plot.decision_boundary(pipeline, features=(0, 1))
    assert plot.decision_boundary(pipeline, X, y, features=(0, 1), resolution=9)
    assert plot.decision_boundary(make_pipeline(PCA(), SVC()).fit(X, y), features=(0, 1))


def test_a_machine_that_refuses_leave_one_out_is_drawn_without_marks():
    X, y = moons()
    model = ReducedHullSVC(kernel="rbf", cut="hull").fit(X, y)
    with pytest.raises(ValueError, match="marks=False"):
        plot.decision_boundary(model, resolution=9)
    assert set(named(plot.decision_boundary(model, marks=False, resolution=9))) == {"0", "1"}


@pytest.mark.parametrize("package", ["matplotlib", "plotly"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    X, y = moons()
    model = SVC().fit(X, y)
    for name in [n for n in sys.modules if n.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)

    class Absent:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.split(".")[0] == package:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'widemargin\[report\]'"):
        plot.decision_boundary(model, backend=package, resolution=9)


# -- rank_map ------------------------------------------------------------------------------------


def ranked():
    X = np.random.default_rng(0).uniform(-1, 1, size=(90, 2))
    return X, np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.0, 0.3])


@pytest.mark.parametrize("backend", BACKENDS)
def test_rank_map_has_bands_and_thresholds(backend):
    X, y = ranked()
    model = OrdinalSVC().fit(X, y)
    picture = plot.rank_map(model, backend=backend, resolution=30)
    assert {k: len(v) for k, v in named(picture).items()} == {
        str(k): int(np.sum(y == k)) for k in range(4)
    }
    if backend == "plotly":
        heat = picture.data[0]
        points = np.stack(np.meshgrid(heat.x, heat.y), axis=-1).reshape(-1, 2)
        assert np.array_equal(np.ravel(heat.z), model.predict(points))
        solid = [t for t in picture.data if t.type == "contour" and t.line.dash == "solid"]
        assert [t.contours.start for t in solid] == pytest.approx(model.thresholds_)
        assert np.ravel(solid[0].z) == pytest.approx(model.utility(points), abs=1e-4)


def test_rank_map_of_a_pipeline_and_of_others():
    X, y = ranked()
    model = make_pipeline(StandardScaler(), OrdinalSVC()).fit(X, y)
    assert plot.rank_map(model, X, y, resolution=9)
    with pytest.raises(ValueError, match="a fitted OrdinalSVC"):
        plot.rank_map(SVC().fit(X, y))
    sorted_only = OrdinalSVC().fit(X, y, qid=np.repeat([0, 1], 45))
    with pytest.raises(ValueError, match="without qid"):
        plot.rank_map(sorted_only)


# -- margins and strengths -----------------------------------------------------------------------


def steps(picture):
    """All margins of a distribution, and those that are wrong."""
    if isinstance(picture, go.Figure):
        lines = {t.name: (np.array(t.x), np.array(t.y)) for t in picture.data if t.name}
    else:
        lines = {t.get_label(): t.get_data() for t in picture.lines}
        lines = {name: line for name, line in lines.items() if not name.startswith("_")}
    wrong = lines.get("wrong", (np.empty(0), np.empty(0)))
    return tuple(np.concatenate([wrong[i], lines["right"][i]]) for i in (0, 1)), wrong[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("data", [moons, blobs], ids=["two", "three"])
def test_margins_are_those_of_leave_one_out(data, backend):
    X, y = data()
    model = SVC(C=10).fit(X, y)
    (margins, share), wrong = steps(plot.margin_distribution(model, backend=backend))
    values, errors = loo.decision_values(model), loo.result(model).errors
    if values.ndim == 1:
        assert margins == pytest.approx(np.sort(np.where(y == 1, values, -values)))
    assert np.all(np.diff(margins) >= 0)
    assert share == pytest.approx(np.arange(1, 61) / 60)
    assert len(wrong) == np.count_nonzero(errors)


def test_margins_of_other_rows():
    X, y = blobs()
    model = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    (margins, _), wrong = steps(plot.margin_distribution(model, X + 0.5, y))
    assert len(wrong) == np.count_nonzero(model.predict(X + 0.5) != y)
    scores, own = model.decision_function(X + 0.5), np.searchsorted(model.classes_, y)
    rivals = [np.delete(s, k).max() for s, k in zip(scores, own, strict=True)]
    assert margins == pytest.approx(np.sort(scores[np.arange(60), own] - rivals))
    with pytest.raises(ValueError, match="labels that the model was not fitted with"):
        plot.margin_distribution(model, X, np.where(y == "ash", "oak", y))
    with pytest.raises(ValueError, match="given together with X"):
        plot.margin_distribution(model, X)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MACHINES)
def test_strengths_are_sorted_and_errors_marked(name, backend):
    X, y = moons()
    model = MACHINES[name].fit(X, y)
    picture = plot.embedding_strengths(model, backend=backend)
    errors = loo.result(model).errors
    if backend == "plotly":
        heights = np.array(picture.data[0].y)
    else:
        heights = picture.lines[0].get_ydata()
    assert np.all(np.diff(heights) <= 0)
    assert heights[0] > 0
    crosses = named(picture)["wrong when left out"]
    assert len(crosses) <= np.count_nonzero(errors)
    assert heights[crosses[:, 0].astype(int) - 1] == pytest.approx(crosses[:, 1])
    if hasattr(model, "alpha_"):
        assert heights == pytest.approx(np.sort(model.alpha_)[::-1][: len(heights)])
        size = model.alpha_
    elif hasattr(model, "support_"):
        size = np.zeros(60)
        size[model.support_] = np.abs(model.dual_coef_[0])
    else:
        return
    shown = np.argsort(-size, kind="stable")[: len(heights)]
    assert len(crosses) == np.count_nonzero(errors[shown])


def test_strengths_of_machines_without_coefficients():
    X, y = moons()
    with pytest.raises(ValueError, match="whose training rows have coefficients"):
        plot.embedding_strengths(OrdinalSVC(kernel="linear").fit(X, y))


# -- landscapes ----------------------------------------------------------------------------------

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1, 1.0, 10.0]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_landscape_of_a_grid(backend):
    search = LOOSearch(SVC(), GRID).fit(*moons())
    picture = plot.loo_landscape(search, backend=backend)
    expected = 1 - search.cv_results_["mean_test_score"].reshape(3, 4).T
    best = [np.log10(search.best_params_["C"]), np.log10(search.best_params_["gamma"])]
    if backend == "plotly":
        heat, star = picture.data
        assert np.array(heat.z, dtype=float) == pytest.approx(expected)
        assert [star.x[0], star.y[0]] == pytest.approx(best)
        assert heat.x == pytest.approx([-1, 0, 1])
        assert picture.layout.xaxis.title.text == "C"
    else:
        heat, star = picture.collections[:2]
        assert np.asarray(heat.get_array()).reshape(4, 3) == pytest.approx(expected)
        assert np.asarray(star.get_offsets())[0] == pytest.approx(best)
        assert (picture.get_xlabel(), picture.get_ylabel()) == ("C", "gamma")


def test_landscape_of_a_larger_grid_holds_the_others_at_their_best():
    pipeline = make_pipeline(StandardScaler(), SVC())
    grid = {f"svc__{name}": values for name, values in GRID.items()}
    grid["svc__loss"] = ["hinge", "squared_hinge"]
    search = LOOSearch(pipeline, grid).fit(*moons())
    with pytest.raises(ValueError, match="params must be two of the parameters that vary"):
        plot.loo_landscape(search)
    picture = plot.loo_landscape(search, params=("svc__gamma", "svc__C"), backend="plotly")
    settings, score = search.cv_results_["params"], search.cv_results_["mean_test_score"]
    z = np.array(picture.data[0].z, dtype=float)
    assert z.shape == (3, 4)
    for setting, value in zip(settings, score, strict=True):
        if setting["svc__loss"] == search.best_params_["svc__loss"]:
            row, column = (
                GRID["C"].index(setting["svc__C"]),
                GRID["gamma"].index(setting["svc__gamma"]),
            )
            assert z[row, column] == pytest.approx(1 - value)
    assert picture.layout.xaxis.title.text == "gamma"
    with pytest.raises(ValueError, match="two different parameters of the grid"):
        plot.loo_landscape(search, params=("C", "gamma"))
    with pytest.raises(ValueError, match="svc__loss must be positive numbers only"):
        plot.loo_landscape(search, params=("svc__C", "svc__loss"))


def test_landscape_of_a_regression():
    X, y = make_moons(40, noise=0.1, random_state=0)
    search = LOOSearch(SVR(), {"C": [0.1, 1.0], "gamma": [0.1, 1.0]}).fit(X, y.astype(float))
    z = np.array(plot.loo_landscape(search, backend="plotly").data[0].z, dtype=float)
    assert z.T.ravel() == pytest.approx(-search.cv_results_["mean_test_score"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_landscape_of_a_descent(backend):
    model = tune(SVC(), *moons())
    for given in (model, model.tuning_):
        picture = plot.loo_landscape(given, backend=backend)
        if backend == "plotly":
            dots, star = picture.data[-2:]
            colours, places = np.array(dots.marker.color), np.column_stack([dots.x, dots.y])
            star = [star.x[0], star.y[0]]
        else:
            dots, star = picture.collections
            colours, places = np.asarray(dots.get_array()), np.asarray(dots.get_offsets())
            star = np.asarray(star.get_offsets())[0]
        trace = model.tuning_.trace
        assert colours == pytest.approx([entry["loss"] for entry in trace])
        assert places == pytest.approx(np.log10([[e["C"], e["gamma"]] for e in trace]))
        assert star == pytest.approx(np.log10([model.C, model.gamma]))


def test_landscapes_of_other_things():
    X, y = moons()
    with pytest.raises(ValueError, match="search must be a fitted LOOSearch"):
        plot.loo_landscape(SVC().fit(X, y))
    with pytest.raises(ValueError, match="a picture has two axes"):
        plot.loo_landscape(tune(SVC(), X, y, params=("C",)))
    one = LOOSearch(SVC(), {"C": [1.0, 10.0]}).fit(X, y)
    with pytest.raises(ValueError, match="two of the parameters that vary"):
        plot.loo_landscape(one)


# -- certificate_history -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_history_has_the_bounds_of_each_round(backend):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] + 0.5 * rng.normal(size=4000) > 0)
    model = LinearSVC(loss="hinge", tol=1e-9, solver="sampling", C=0.1).fit(X, y)
    for k in (0, 1, 2):
        picture = plot.certificate_history(model, pair=k, backend=backend)
        if backend == "plotly":
            upper, lower, line = (np.array(t.y, dtype=float) for t in picture.data)
        else:
            upper, lower, line = (t.get_ydata() for t in picture.lines)
        assert upper == pytest.approx([entry["upper"] for entry in model.history_[k]])
        assert lower == pytest.approx([entry["lower"] for entry in model.history_[k]])
        assert line[0] == model.certificates_[k].primal
    assert plot.certificate_history(model, backend=backend)
    with pytest.raises(ValueError, match="pair must be None or an integer from 0 to 2"):
        plot.certificate_history(model, pair=3)


def test_history_of_reduced_hulls_and_of_machines_without_one():
    X, y = make_blobs(400, centers=2, cluster_std=0.5, random_state=0)
    for solver in ("implicit", "sampling"):
        model = ReducedHullSVC(solver=solver, k=2).fit(X, y)
        figure = plot.certificate_history(model, backend="plotly")
        assert len(figure.data[0].x) == len(model.history_)
    for model in (SVC(), LinearSVC(), ReducedHullSVC()):
        with pytest.raises(ValueError, match='LinearSVC has them with solver="sampling"'):
            plot.certificate_history(model.fit(X, y))
