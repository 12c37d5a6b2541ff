"""The help of every command: names are whole, however narrow the terminal."""

import pytest


def commands():
    from perdure import lines

    def below(words, group):
        for name in group:
            command = group[name]
            yield [*words, name], command
            yield from below([*words, name, "DIR"], getattr(command, "commands", {}))

    return below([], lines.Commands())


@pytest.mark.parametrize("width", [50, 80, 132])
def test_no_name_of_an_option_and_no_value_is_broken(width, capsys, monkeypatch):
    from typer.main import get_command

    from perdure import helping, lines, manual

    monkeypatch.setenv("COLUMNS", str(width))
    above = get_command(lines.app).make_context("perdure", [], resilient_parsing=True)
    options = 0
    for words, command in commands():
        context = command.make_context(words[-1], [], parent=above, resilient_parsing=True)
        helping.show(command, context)
        shown = capsys.readouterr().out
        names = set(shown.replace(",", " ").split())
        for one in command.params:
            if one.param_type_name != "option" or getattr(one, "hidden", False):
                continue
            assert {*one.opts, *one.secondary_opts} <= names, words
            assert one.is_flag or f" {manual.value(one)} " in shown, words
            options += 1
        assert "…" not in shown.replace("0x…", "").replace("list …", ""), words
        assert max(map(len, shown.splitlines())) <= width, words
    assert options > 200


def test_help_says_defaults_choices_and_what_is_required(command):
    _, out, _ = command("cut", "--help")
    assert "--seed NUMBER" in out and "Of every random choice. [default: 1]" in out
    assert "--engine fast|compiled|plain" in out
    assert "[required]" in out
    _, out, _ = command("check", "-h")
    assert "--nested, --no-nested" in out and "[default: nested]" in out
    _, out, _ = command("trace", "--help")
    assert "Keep the guest's files." in out and "OUT/files" not in out
    _, out, _ = command("litmus", "--help")
    assert "[default: 500]" in out and "[default: 1]" in out


def test_usage_has_arguments_by_their_names(command):
    assert "Usage: perdure reproduce [OPTIONS] PAPER [FIGURE]..." in command("reproduce", "-h")[1]
    assert "Usage: perdure travel [OPTIONS] DIR COMMAND" in command("travel", "-h")[1]


@pytest.mark.parametrize(("words", "usage", "missing"), [
    (("replay",), "replay [OPTIONS] TOKEN", "'TOKEN'"),
    (("reproduce",), "reproduce [OPTIONS] PAPER [FIGURE]...", "'PAPER'"),
    (("sensitivity",), "sensitivity [OPTIONS] PRESET", "'PRESET'"),
    (("travel", "x", "dump"), "travel DIR dump [OPTIONS] E FILE", "'E'"),
])  # fmt: skip
def test_a_refusal_names_arguments_as_the_help_does(command, words, usage, missing):
    status, _, err = command(*words)
    assert status == 2
    assert f"Usage: perdure {usage}\n" in err
    assert f"Missing argument {missing}." in err
    assert "{" not in err


def test_help_of_a_group_lists_its_commands_under_their_headings(command):
    _, out, _ = command("--help")
    assert out.index(" Run ") < out.index("│ run ") < out.index(" Cut the power ")
    _, out, _ = command("travel", "--help")
    assert "│ epochs " in out and " Commands " in out
