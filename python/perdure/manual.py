"""The manual page, made from the commands themselves: their help, arguments and options.

Always true here: it says what `--help` says, of every command of this very version; it has no date,
so that equal versions have equal pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import EnumMeta
from typing import Any

import perdure

AROUND = """\
.SH EXIT STATUS
0 where all is well, 1 where a promise was broken or a point failed, 2 where a request cannot be
carried out (one message on standard error), 130 where Ctrl-C ended it after the finished results
were written, 141 where nobody reads standard output any more; the files that were asked for are
written then, too.
\\fBrun\\fR, \\fBreplicate\\fR and \\fBreplica\\fR exit as the program does.
.SH ENVIRONMENT
.TP
.B COLUMNS
How wide tables are. Without it, as wide as the terminal; in a pipe or a file, as wide as they need
to be.
.TP
.B NO_COLOR
Where it is set, nothing is coloured.
.SH FILES
.TP
.I $XDG_STATE_HOME/perdure/tokens
Tokens of the power cuts that reports showed, under their short names; in ~/.local/state without
that variable. The newest thousand; may be removed at any time.
"""


def page(root: Any) -> str:
    """The page in roff; `root` is the context of the whole command."""
    command = root.command
    lines = [
        f'.TH PERDURE 1 "" "perdure {perdure.__version__}" "User Commands"',
        ".SH NAME",
        f"perdure \\- {_text(_sentence(command.help).rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B perdure",
        "COMMAND [OPTION]... [ARGUMENT]...",
        ".SH DESCRIPTION",
        *_paragraphs(command.help),
        ".SH OPTIONS",
        *_parameters(command),
        ".SH COMMANDS",
    ]
    for name, one in _commands(command, "perdure"):
        lines += [f".SS {_text(_usage(name, one))}", *_paragraphs(one.help)]
        lines += _parameters(one)
    return "\n".join(lines) + "\n" + AROUND


def _commands(group: Any, above: str) -> Iterator[tuple[str, Any]]:
    """The commands of a group, and those of groups in it, with all their names."""
    for name, one in group.commands.items():
        if one.hidden:
            continue
        yield f"{above} {name}", one
        if hasattr(one, "commands"):
            yield from _commands(one, f"{above} {name}{_places(one)}")


def _usage(name: str, command: Any) -> str:
    last = " COMMAND" if hasattr(command, "commands") else ""
    return f"{name} [OPTION]...{_places(command)}{last}"


def _places(command: Any) -> str:
    """The arguments of a command, as its usage shows them."""
    shown = (f" {argument(one)}" for one in _arguments(command))
    return "".join(shown)


def _arguments(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument"]


def argument(one: Any) -> str:
    """What an argument is called."""
    return str(one.metavar or one.name.upper().strip("_"))


def _parameters(command: Any) -> Iterator[str]:
    """What each argument and each option means."""
    for one in command.params:
        if getattr(one, "hidden", False):
            continue
        if one.param_type_name == "argument":
            yield from (".TP", f"\\fI{_text(argument(one))}\\fR", _text(one.help or ""))
            continue
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in (*one.opts, *one.secondary_opts))
        behind = "" if one.is_flag else f" \\fI{_text(value(one))}\\fR"
        yield from (".TP", names + behind, _text((one.help or "") + default(one)))


def value(option: Any) -> str:
    """What stands behind an option."""
    if option.metavar:
        return str(option.metavar)
    # Typer keeps the type that a command declares; older ones keep click's for it.
    declared = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    kind = declared or option.type
    choices = kind if isinstance(kind, EnumMeta) else getattr(kind, "choices", ())
    if choices:
        return "|".join(str(getattr(one, "value", one)) for one in choices)
    name = str(getattr(kind, "__name__", None) or getattr(kind, "name", ""))
    return "NUMBER" if "int" in name or "float" in name else "TEXT"


def default(option: Any) -> str:
    """The default, where there is one."""
    if isinstance(option.show_default, str):
        return f"  [default: {option.show_default}]"
    plain = getattr(option.default, "value", option.default)
    if plain in (None, "", ()) or isinstance(plain, bool) or callable(plain):
        return ""
    return f"  [default: {plain}]"


def _paragraphs(help_text: str | None) -> Iterator[str]:
    for index, paragraph in enumerate(re.split(r"\n\s*\n", (help_text or "").strip())):
        if index:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _sentence(help_text: str) -> str:
    """What stands behind the name: the first clause."""
    return help_text.split(":")[0].strip()


def _text(text: str) -> str:
    """Text that roff takes as text."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in plain)
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped
