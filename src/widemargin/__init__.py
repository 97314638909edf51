"""Large-margin machines with certificates, under scikit-learn's interface."""

from widemargin import kernels
from widemargin.certificate import Certificate
from widemargin.estimators.linear import LinearSVC
from widemargin.estimators.svm import SVC, SVR, NuSVC, NuSVR

__version__ = "0.1.0"

__all__ = ["SVC", "SVR", "Certificate", "LinearSVC", "NuSVC", "NuSVR", "kernels"]
