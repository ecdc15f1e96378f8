"""#SBATCH lines: which of them count, and what a valid script is."""

from __future__ import annotations

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.client.submit.batch_script import read_script, wrapped_script

SCRIPT = """\
#!/bin/bash
# a comment
#SBATCH -N 4 --time=2:00:00   # two hours

#SBATCH\t--job-name="my job"
#SBATCHX -N 9
##SBATCH -N 9
echo start
#SBATCH -N 9
"""


def test_lines_before_the_first_command_count() -> None:
    script = read_script(SCRIPT, "a.sh")
    assert script.words == ("-N", "4", "--time=2:00:00", "--job-name=my job")
    assert script.lines == (3, 3, 3, 5)
    assert script.content == SCRIPT


@pytest.mark.parametrize(
    "comment", ["  # indented", "\t# indented", "# one\u2028line", "# one\x85line", "# one\x0cline", "# DOS\r"]
)
def test_a_comment_ends_with_its_line(comment: str) -> None:
    """Slurm skips white space before # (src/sbatch/opt.c, _opt_batch_script), and only a newline ends a line."""
    script = read_script(f"#!/bin/bash\n{comment}\n#SBATCH --time=1:00:00\nhostname\n", "a.sh")
    assert (script.words, script.lines) == (("--time=1:00:00",), (3,))


def test_dos_line_endings() -> None:
    script = read_script(SCRIPT.replace("\n", "\r\n"), "a.sh")
    assert script.words == ("-N", "4", "--time=2:00:00", "--job-name=my job")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("echo\n", "a.sh: line 1: a script must begin with #!"),
        ("", "a.sh: is empty: use a batch script, or a command with --wrap"),
        ("#!/bin/sh\n#SBATCH -J 'a\n", "a.sh: line 2: No closing quotation"),
        ("#!/bin/sh\0", "zero byte"),
        ("#!/bin/sh\n\udcff", "a.sh: is not text: it contains bytes that are not UTF-8"),
        ("#!/bin/sh\n" + "x" * 900_000, "more than 900000 bytes"),
    ],
)
def test_invalid_scripts(content: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        read_script(content, "a.sh")


def test_a_wrapped_command_has_no_options() -> None:
    script = wrapped_script("echo $HOME")
    assert script.words == ()
    assert script.content.endswith("\necho $HOME\n")
