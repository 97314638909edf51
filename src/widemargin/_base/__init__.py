"""What all rooms share: types, compilation, threads, messages, progress, validation."""
