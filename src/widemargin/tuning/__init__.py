"""Choose kernel and cost by leave-one-out, without cross-validation."""
