"""Assessment of fitted models: leave-one-out, suspicious labels, margins, bounds, metrics."""
