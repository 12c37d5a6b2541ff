"""Where the command `perdure` begins, and `python -m perdure`.

Always true here: Ctrl-C is status 130 and no traceback from here on, also while the command's
modules are being loaded, which takes most of the time of a short command.
"""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Loads the command, and carries it out."""
    try:
        from perdure import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
