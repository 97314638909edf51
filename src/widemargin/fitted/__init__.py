"""What a fit keeps and can be asked: values, left-out values, margins, probabilities."""
