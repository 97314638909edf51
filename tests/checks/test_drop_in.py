"""Snippets of everyday scripts, run with `sklearn.svm` and with widemargin.

Each snippet takes a namespace of estimators and returns something to compare: numbers agree within
a tolerance that allows for other probabilities and other support vectors, everything else exactly.
"""

from __future__ import annotations

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
import sklearn.svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import widemargin

X, y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
two = y < 2
X2, y2 = make_classification(120, 6, n_informative=4, flip_y=0.1, random_state=0)
XR, yR = (part[:120] for part in load_diabetes(return_X_y=True))
yR = (yR - yR.mean()) / yR.std()
DIGITS = tuple(part[:400] for part in load_digits(return_X_y=True))
TEXTS = ["free money now", "meeting at noon", "win money", "lunch at noon", "free win", "noon"] * 5
SPAM = [1, 0, 1, 0, 1, 0] * 5
names = np.array(["setosa", "versicolor", "virginica"])[y]
weight = np.linspace(0.5, 2.0, len(y))


def gram(A, B):
    return A @ B.T


def dense(value):
    return value.toarray() if sp.issparse(value) else value


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def dumped(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def one_hot_frame():
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = np.where(X[:, 0] > 0, "u", "v")
    return frame


def columns_of_a_frame(svm):
    from sklearn.preprocessing import OneHotEncoder

    prepare = ColumnTransformer(
        [("n", StandardScaler(), list("abcd")), ("k", OneHotEncoder(), ["kind"])]
    )
    return make_pipeline(prepare, svm.SVC()).fit(one_hot_frame(), names).predict(one_hot_frame())


def feature_names(svm):
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    return list(svm.SVC().fit(frame, y).feature_names_in_)


def routed_weights(svm):
    with sklearn.config_context(enable_metadata_routing=True):
        machine = (
            svm.SVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        )
        found = cross_validate(machine, X, y, params={"sample_weight": weight})
        return found["test_score"].mean()


def message_for_nan(svm):
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN") as caught:
        svm.SVC().fit(bad, y)
    return "contains NaN" in str(caught.value)


def one_class_in_y(svm):
    with pytest.raises(ValueError, match="class"):
        svm.SVC().fit(X, np.zeros(len(X)))
    return True


def wrong_number_of_features(svm):
    with pytest.raises(ValueError, match="features"):
        svm.SVC().fit(X, y).predict(X[:, :2])
    return True


def not_fitted(svm):
    with pytest.raises(sklearn.exceptions.NotFittedError):
        svm.SVC().predict(X)
    return True


def self_training(svm):
    partly = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    machine = SelfTrainingClassifier(CalibratedClassifierCV(svm.SVC(), ensemble=False))
    return machine.fit(X, partly).score(X, y)


SNIPPETS = {
    # -- parameters
    "probability": lambda svm: svm.SVC(probability=True).fit(X, y).predict_proba(X).argmax(1),
    "predict_log_proba": lambda svm: svm.SVC(probability=True).fit(X, y).predict_log_proba(X).shape,
    "shrinking": lambda svm: svm.SVC(shrinking=False).fit(X, y).predict(X),
    "ovr shape": lambda svm: (
        svm.SVC(decision_function_shape="ovr").fit(X, y).decision_function(X).shape
    ),
    "ovo values": lambda svm: svm.SVC(decision_function_shape="ovo").fit(X, y).decision_function(X),
    "break_ties": lambda svm: svm.SVC(break_ties=True).fit(X, y).predict(X),
    "class_weight dict": lambda svm: svm.SVC(class_weight={0: 3}).fit(X, y).class_weight_,
    "balanced": lambda svm: svm.SVC(class_weight="balanced").fit(X, y).predict(X),
    "NuSVC default": lambda svm: svm.NuSVC().fit(X, y).predict(X),
    "NuSVC nu": lambda svm: svm.NuSVC(nu=0.3).fit(X, y).decision_function(X).shape,
    "cache_size": lambda svm: svm.SVC(cache_size=20).fit(X, y).predict(X),
    "verbose": lambda svm: svm.SVC(verbose=False).fit(X, y).score(X, y),
    "random_state": lambda svm: svm.SVC(random_state=0).fit(X, y).predict(X),
    "gamma auto": lambda svm: svm.SVC(gamma="auto").fit(X, y).predict(X),
    "poly": lambda svm: svm.SVC(kernel="poly", degree=2, coef0=1).fit(X, y).predict(X),
    "precomputed": lambda svm: svm.SVC(kernel="precomputed").fit(gram(X, X), y).predict(gram(X, X)),
    "callable kernel": lambda svm: svm.SVC(kernel=gram).fit(X, y).predict(X),
    "get_params": lambda svm: svm.SVC(C=3).get_params()["C"],
    "set_params": lambda svm: svm.SVC().set_params(C=5, kernel="linear").fit(X, y).score(X, y),
    "clone": lambda svm: clone(svm.SVC(C=2)).C,
    # -- attributes
    "support_": lambda svm: len(svm.SVC(tol=1e-6).fit(X2, y2).support_),
    "support_vectors_": lambda svm: svm.SVC(tol=1e-6).fit(X2, y2).support_vectors_.shape,
    "n_support_": lambda svm: svm.SVC(tol=1e-6).fit(X2, y2).n_support_,
    "dual_coef_": lambda svm: svm.SVC(tol=1e-6).fit(X2, y2).dual_coef_.shape,
    "intercept_": lambda svm: svm.SVC(tol=1e-6).fit(X, y).intercept_,
    "coef_": lambda svm: svm.SVC(kernel="linear", tol=1e-6).fit(X, y).coef_,
    "sparse coef_": lambda svm: dense(
        svm.SVC(kernel="linear", tol=1e-6).fit(sp.csr_matrix(X), y).coef_
    ),
    "sparse dual_coef_": lambda svm: sp.issparse(
        svm.SVC(tol=1e-6).fit(sp.csr_matrix(X), y).dual_coef_
    ),
    "SVR coef_": lambda svm: svm.SVR(kernel="linear", tol=1e-6).fit(XR, yR).coef_,
    "shape_fit_": lambda svm: svm.SVC().fit(X, y).shape_fit_,
    "fit_status_": lambda svm: svm.SVC().fit(X, y).fit_status_,
    "n_iter_ of SVC": lambda svm: svm.SVC().fit(X, y).n_iter_.shape,
    "n_iter_ of SVR": lambda svm: isinstance(svm.SVR().fit(XR, yR).n_iter_, int),
    "feature names": feature_names,
    # -- data
    "sparse": lambda svm: svm.SVC().fit(sp.csr_matrix(X), y).predict(sp.csr_matrix(X)),
    "string labels": lambda svm: svm.SVC().fit(X, names).predict(X),
    "lists": lambda svm: svm.SVC().fit(X.tolist(), y.tolist()).predict(X.tolist()),
    "float32": lambda svm: svm.SVC().fit(X.astype(np.float32), y).predict(X.astype(np.float32)),
    "sample_weight": lambda svm: (
        svm.SVC(gamma=0.5, tol=1e-6).fit(X2, y2, np.ones(120)).decision_function(X2)
    ),
    "column transformer": columns_of_a_frame,
    "text": lambda svm: (
        make_pipeline(TfidfVectorizer(), svm.SVC(kernel="linear")).fit(TEXTS, SPAM).predict(TEXTS)
    ),
    "NaN": message_for_nan,
    "one class": one_class_in_y,
    "wrong features": wrong_number_of_features,
    "not fitted": not_fitted,
    # -- model selection
    "GridSearchCV": lambda svm: GridSearchCV(svm.SVC(), {"C": [0.01, 1.0]}).fit(X, y).best_params_,
    "RandomizedSearchCV": lambda svm: (
        RandomizedSearchCV(svm.SVC(), {"C": [0.01, 1.0]}, n_iter=2, random_state=0)
        .fit(X, y)
        .best_score_
    ),
    "cross_val_score": lambda svm: cross_val_score(svm.SVC(), X, y),
    "n_jobs": lambda svm: cross_val_score(svm.SVC(), X, y, n_jobs=2, cv=3),
    "cross_val_predict": lambda svm: cross_val_predict(svm.SVC(), X, y),
    "decision values of folds": lambda svm: (
        cross_val_predict(svm.SVC(), X, y, method="decision_function").shape
    ),
    "learning_curve": lambda svm: learning_curve(svm.SVC(), X, y, cv=3, train_sizes=[0.5, 1.0])[
        2
    ].mean(),
    "validation_curve": lambda svm: validation_curve(
        svm.SVC(), X, y, param_name="C", param_range=[0.1, 1]
    )[1].mean(),
    "train_test_split": lambda svm: (lambda a, b, c, d: svm.SVC().fit(a, c).score(b, d))(
        *train_test_split(X, y, random_state=0)
    ),
    "roc_auc": lambda svm: roc_auc_score(y2, svm.SVC().fit(X2, y2).decision_function(X2)),
    "multiclass roc_auc": lambda svm: roc_auc_score(
        y, svm.SVC(probability=True).fit(X, y).predict_proba(X), multi_class="ovr"
    ),
    "metadata routing": routed_weights,
    # -- composition
    "pipeline": lambda svm: (
        Pipeline([("s", MinMaxScaler()), ("m", svm.SVC())]).fit(X, y).predict(X)
    ),
    "sigmoid calibration": lambda svm: (
        CalibratedClassifierCV(svm.SVC(), cv=3).fit(X, y).predict_proba(X)
    ),
    "isotonic calibration": lambda svm: (
        CalibratedClassifierCV(svm.SVC(), method="isotonic", cv=3).fit(X, y).predict(X)
    ),
    "OneVsRest": lambda svm: OneVsRestClassifier(svm.SVC()).fit(X, y).predict(X),
    "OneVsOne": lambda svm: OneVsOneClassifier(svm.SVC()).fit(X, y).predict(X),
    "output codes": lambda svm: (
        OutputCodeClassifier(svm.SVC(), random_state=0).fit(X, y).score(X, y)
    ),
    "bagging": lambda svm: BaggingClassifier(svm.SVC(), 5, random_state=0).fit(X, y).score(X, y),
    "AdaBoost": lambda svm: (
        AdaBoostClassifier(svm.SVC(), n_estimators=3, random_state=0).fit(X, y).score(X, y)
    ),
    "voting": lambda svm: (
        VotingClassifier([("a", svm.SVC()), ("b", svm.SVC(C=9))]).fit(X, y).predict(X)
    ),
    "stacking": lambda svm: StackingClassifier([("a", svm.SVC())], cv=3).fit(X, y).score(X, y),
    "self-training": self_training,
    "MultiOutputClassifier": lambda svm: (
        MultiOutputClassifier(svm.SVC()).fit(X, np.c_[y, y == 1]).predict(X)
    ),
    "ClassifierChain": lambda svm: (
        ClassifierChain(svm.SVC()).fit(X, np.c_[y > 0, y > 1]).predict(X)
    ),
    "MultiOutputRegressor": lambda svm: (
        MultiOutputRegressor(svm.SVR(tol=1e-6)).fit(XR, np.c_[yR, -yR]).predict(XR)
    ),
    "TransformedTarget": lambda svm: (
        TransformedTargetRegressor(svm.SVR(tol=1e-6), transformer=StandardScaler())
        .fit(XR, yR)
        .predict(XR)
    ),
    "RFE": lambda svm: (
        RFE(svm.SVC(kernel="linear", tol=1e-6), n_features_to_select=2).fit(X, y).support_
    ),
    "RFECV": lambda svm: RFECV(svm.SVC(kernel="linear"), cv=3).fit(X2, y2).ranking_.shape,
    "RFE of SVR": lambda svm: (
        RFE(svm.SVR(kernel="linear", tol=1e-6), n_features_to_select=4).fit(XR, yR).support_
    ),
    "SelectFromModel": lambda svm: (
        SelectFromModel(svm.SVC(kernel="linear", tol=1e-6)).fit(X2, y2).get_support()
    ),
    "SelectFromModel l1": lambda svm: (
        SelectFromModel(svm.LinearSVC(penalty="l1", dual=False, C=0.05, tol=1e-6))
        .fit(X2, y2)
        .get_support()
        .shape
    ),
    "sequential selection": lambda svm: (
        SequentialFeatureSelector(svm.SVC(), n_features_to_select=2, cv=3).fit(X, y).get_support()
    ),
    "permutation importance": lambda svm: (
        permutation_importance(
            svm.SVC().fit(X, y), X, y, n_repeats=2, random_state=0
        ).importances_mean
    ),
    "partial dependence": lambda svm: partial_dependence(svm.SVR(tol=1e-6).fit(XR, yR), XR, [2])[
        "average"
    ],
    # -- storage
    "pickle": lambda svm: pickled(svm.SVC().fit(X, y)).predict(X),
    "joblib": lambda svm: dumped(svm.SVC().fit(X, y)).predict(X),
    "repr": lambda svm: repr(svm.SVC(C=3)),
    "html": lambda svm: "SVC" in svm.SVC()._repr_html_(),
    # -- regression
    "SVR": lambda svm: svm.SVR(tol=1e-6).fit(XR, yR).predict(XR),
    "NuSVR": lambda svm: svm.NuSVR(tol=1e-6).fit(XR, yR).predict(XR),
    "SVR score": lambda svm: svm.SVR(C=10, tol=1e-6).fit(XR, yR).score(XR, yR),
    # -- linear machines
    "LinearSVC digits": lambda svm: svm.LinearSVC(C=0.01).fit(*DIGITS).coef_.shape,
    "LinearSVC": lambda svm: svm.LinearSVC(dual="auto").fit(X, y).score(X, y),
    "LinearSVC penalty": lambda svm: (
        svm.LinearSVC(penalty="l2", loss="squared_hinge").fit(X, y).score(X, y)
    ),
    "LinearSVC hinge": lambda svm: (
        svm.LinearSVC(loss="hinge", max_iter=20_000).fit(X2, y2).score(X2, y2)
    ),
    "crammer_singer": lambda svm: svm.LinearSVC(multi_class="crammer_singer").fit(X, y).coef_.shape,
    "intercept_scaling": lambda svm: (
        svm.LinearSVC(intercept_scaling=1, tol=1e-8, max_iter=100_000).fit(X2, y2).coef_
    ),
    "LinearSVR": lambda svm: (
        svm.LinearSVR(C=0.5, max_iter=100_000, tol=1e-6).fit(XR, yR).score(XR, yR)
    ),
    "l1_min_c": lambda svm: svm.l1_min_c(X2, y2, intercept_scaling=1.0),
    # -- outliers
    "OneClassSVM": lambda svm: svm.OneClassSVM(nu=0.2, tol=1e-8).fit(X2).score_samples(X2),
    "fit_predict": lambda svm: svm.OneClassSVM(nu=0.2).fit_predict(X2).shape,
    "offset_": lambda svm: svm.OneClassSVM(nu=0.2, tol=1e-8).fit(X2).offset_,
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_both_libraries_give_the_same(name):
    np.random.seed(0)  # noqa: NPY002 (LIBLINEAR draws from the global generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's deprecation of `probability`
        theirs = SNIPPETS[name](sklearn.svm)
    ours = SNIPPETS[name](widemargin)
    if isinstance(theirs, str | list | tuple | dict | bool):
        assert ours == theirs
        return
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    if theirs.dtype.kind in "OUSb":
        assert (ours == theirs).mean() >= 0.98  # samples on the boundary
    elif theirs.ndim == 1 and theirs.dtype.kind == "i":
        assert (ours == theirs).mean() >= 0.98
    else:
        np.testing.assert_allclose(ours, theirs, rtol=0.02, atol=0.03)
