"""Prints what pyproject.toml asks pip for: the build backend and the dependencies.

    requirements.py [EXTRA...]

With names of extras, it prints those extras' requirements and nothing else.
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
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
print("\n".join(wanted))
