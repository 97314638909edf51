"""Support vector classification and regression: SVC, NuSVC, SVR, NuSVR."""

from widemargin.estimators.svm.classification import SVC, NuSVC
from widemargin.estimators.svm.one_class import OneClassSVM
from widemargin.estimators.svm.regression import SVR, NuSVR

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"]
