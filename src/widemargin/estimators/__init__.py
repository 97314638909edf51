"""What people use: estimators with scikit-learn's interface."""
