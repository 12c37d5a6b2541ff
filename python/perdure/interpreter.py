"""How this Python is started again, for a module.

Always true here: the folder that the user happens to be in has no part in it. It may hold a
`queue.py` or a `types.py` of the user's own, which Python would take for its library's (before 3.11
it cannot be told not to).
"""

from __future__ import annotations

import sys

MODULE: tuple[str, ...] = (
    (sys.executable, "-P", "-m") if sys.version_info >= (3, 11) else (sys.executable, "-m")
)
"""The beginning of a command line, before the module's name."""
