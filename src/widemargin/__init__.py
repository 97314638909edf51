"""Large-margin machines with certificates, under scikit-learn's interface."""

from widemargin import kernels
from widemargin.assess import loo
from widemargin.assess.doubt import suspects
from widemargin.certificate import Certificate
from widemargin.estimators.gp import MeanFieldGPClassifier
from widemargin.estimators.hull import ReducedHullSVC
from widemargin.estimators.linear import LinearSVC
from widemargin.estimators.svm import SVC, SVR, NuSVC, NuSVR
from widemargin.estimators.tube import TubeSVR
from widemargin.tuning.gradient import tune
from widemargin.tuning.search import LOOSearch

__version__ = "0.1.0"

__all__ = [
    "SVC",
    "SVR",
    "Certificate",
    "LOOSearch",
    "LinearSVC",
    "MeanFieldGPClassifier",
    "NuSVC",
    "NuSVR",
    "ReducedHullSVC",
    "TubeSVR",
    "kernels",
    "loo",
    "suspects",
    "tune",
]
