"""Fitted models: values, leave-one-out values, margins, calibrations, and their cache."""
