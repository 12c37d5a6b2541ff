"""Prints what `workloads/debian/SHA256SUMS` has to say.

python -m perdure.inputs > sums && mv sums workloads/debian/SHA256SUMS
"""

import sys

from perdure import inputs

sys.stdout.write(inputs.sums())
