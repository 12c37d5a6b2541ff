"""Where the command `perdure` begins, and `python -m perdure`.

Always true here: Ctrl-C is status 130 and no traceback from here on, also while the command's
modules are being loaded, which takes most of the time of a short command. While they are, nobody
looks for garbage: all that they make stays.
"""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Loads the command, and carries it out."""
    gc.disable()
    try:
        from perdure import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
