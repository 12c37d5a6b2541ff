"""Prints what pyproject.toml asks pip for: the build backend and the dependencies.

    requirements.py [EXTRA...]

With names of extras, it prints those extras' requirements and nothing else. Without, the extra
`reports` is among the dependencies: who works here needs it.
"""

import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10: pip carries the same parser
    from pip._vendor import tomli as tomllib

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
extras = sys.argv[1:]
if extras:
    wanted = [line for name in extras for line in project["project"]["optional-dependencies"][name]]
else:
    project, backend = project["project"], project["build-system"]["requires"]
    wanted = [*backend, *project["dependencies"], *project["optional-dependencies"]["reports"]]
print("\n".join(wanted))
