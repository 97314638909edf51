"""Large-margin machines with certificates, under scikit-learn's interface."""

from widemargin import kernels
from widemargin.assess import bounds, loo, metrics
from widemargin.assess.doubt import suspects
from widemargin.certificate import Certificate
from widemargin.estimators.adaptive import LOOSVC, AdaptiveMarginSVC
from widemargin.estimators.cumulative import CumulativeLinkClassifier
from widemargin.estimators.gp import MeanFieldGPClassifier
from widemargin.estimators.hull import ReducedHullSVC
from widemargin.estimators.linear import LinearSVC
from widemargin.estimators.lp import LPSVC, NuLPSVC
from widemargin.estimators.ordinal import OrdinalSVC
from widemargin.estimators.svm import SVC, SVR, NuSVC, NuSVR
from widemargin.estimators.tube import TubeSVR
from widemargin.reporting import plot
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
    "AdaptiveMarginSVC",
    "Certificate",
    "CumulativeLinkClassifier",
    "LOOSearch",
    "LinearSVC",
    "MeanFieldGPClassifier",
    "NuLPSVC",
    "NuSVC",
    "NuSVR",
    "OrdinalSVC",
    "ReducedHullSVC",
    "TubeSVR",
    "bounds",
    "kernels",
    "loo",
    "metrics",
    "plot",
    "regularisation_path",
    "report",
    "suspects",
    "tune",
]
