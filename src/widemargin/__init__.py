"""Large-margin estimators with optimality certificates and the scikit-learn interface."""

from widemargin import bounds, kernels, loo, margins, metrics, plot
from widemargin.assess.suspects import suspects
from widemargin.certificate import Certificate
from widemargin.estimators.boosting import AdaBoostClassifier
from widemargin.estimators.boosting.lp_boost import LPBoostClassifier
from widemargin.estimators.convert import to_sklearn
from widemargin.estimators.cumulative import CumulativeLinkClassifier
from widemargin.estimators.gp import MeanFieldGPClassifier
from widemargin.estimators.gp.regression import GPRegressor
from widemargin.estimators.hull import ReducedHullSVC
from widemargin.estimators.linear import LinearSVC
from widemargin.estimators.linear.regression import LinearSVR
from widemargin.estimators.linear.smallest_c import l1_min_c
from widemargin.estimators.lp import LPSVC, NuLPSVC
from widemargin.estimators.lp.adaptive import LOOSVC, AdaptiveMarginSVC
from widemargin.estimators.max_margin import MaxMarginClassifier
from widemargin.estimators.ordinal import OrdinalSVC
from widemargin.estimators.perceptron import PerceptronClassifier
from widemargin.estimators.rbf_net import RBFNetClassifier
from widemargin.estimators.svm import SVC, SVR, NuSVC, NuSVR
from widemargin.estimators.svm.one_class import OneClassSVM
from widemargin.estimators.tube import TubeSVR
from widemargin.reporting.report import report
from widemargin.tuning.gradient import tune
from widemargin.tuning.paths import regularisation_path
from widemargin.tuning.search import LOOSearch

__version__ = "0.1.0"

__all__ = [
    "LOOSVC",
    "LPSVC",
    "SVC",
    "SVR",
    "AdaBoostClassifier",
    "AdaptiveMarginSVC",
    "Certificate",
    "CumulativeLinkClassifier",
    "GPRegressor",
    "LOOSearch",
    "LPBoostClassifier",
    "LinearSVC",
    "LinearSVR",
    "MaxMarginClassifier",
    "MeanFieldGPClassifier",
    "NuLPSVC",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "OrdinalSVC",
    "PerceptronClassifier",
    "RBFNetClassifier",
    "ReducedHullSVC",
    "TubeSVR",
    "bounds",
    "kernels",
    "l1_min_c",
    "loo",
    "margins",
    "metrics",
    "plot",
    "regularisation_path",
    "report",
    "suspects",
    "to_sklearn",
    "tune",
]
