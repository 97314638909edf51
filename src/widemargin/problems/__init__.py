"""What is minimised: one small dataclass per family of formulations."""
