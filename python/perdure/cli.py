"""The command `perdure`.

Always true here: a command parses its options, makes one call of `perdure.api`, and prints what
came back. Exit status 0 means that all is well, 1 that a promise was broken, 2 that the request
cannot be carried out (one message on standard error), 130 that Ctrl-C ended it after the finished
results were written, 141 that nobody reads standard output any more (the files that were asked for
are written before anything is printed); `run` exits as the guest's program did. With `--json -`,
standard output has the result as JSON and nothing else. The commands themselves stand in
`perdure.commands`; `perdure.plain` answers a line that asks for nothing unusual without loading
them, and `perdure.lines` reads every line.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from perdure import PerdureError, plain, statuses, streams


def main() -> NoReturn:
    """The command: a refusal is one message and status 2, never a traceback."""
    with streams.watched():
        try:
            status = plain.answered(sys.argv[1:])
            if status is None:
                from perdure import lines

                lines.answer()
        except PerdureError as error:
            from perdure import outputs, values

            sys.stdout.flush()
            message = values.of_setting(str(error), sys.argv)
            print(f"perdure: {outputs.told(message, sys.argv)}", file=sys.stderr)
            sys.exit(statuses.of_refusal(error))
        except KeyboardInterrupt:
            sys.exit(statuses.INTERRUPTED)
    sys.exit(status)


if __name__ == "__main__":
    main()
