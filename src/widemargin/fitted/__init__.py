"""Fitted models: decision values, leave-one-out, margins, calibrations, and a cache of these."""
