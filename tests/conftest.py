"""What all tests share: where the helpers live, and reproducible hypothesis runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# scikit-learn skips its array API check without this, which SciPy reads when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

from hypothesis import HealthCheck, settings

# The helpers beside this file (byhand, awkward, fitting) are imported under any import mode.
_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

# Derandomised: a failure seen once is seen by everybody. Deadlines would be timed tests.
settings.register_profile(
    "widemargin",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.load_profile("widemargin")
