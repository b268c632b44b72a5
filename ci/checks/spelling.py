"""Spelling, by codespell; ci/codespell.txt lists words that it takes for errors and that are none."""
import shutil
import subprocess

from checks.files import CannotCheck, is_prose_file, listing

IGNORED = "ci/codespell.txt"


def check():
    if not shutil.which("codespell"):
        raise CannotCheck("codespell is absent; apt-get install codespell")
    paths = [path for path in listing() if is_prose_file(path)]
    ignored = ["-I", IGNORED] if IGNORED in listing() else []
    said = subprocess.run(["codespell", *ignored, "--", *paths],
                          capture_output=True, text=True, check=False)
    for finding in said.stdout.splitlines():
        path, line, message = finding.split(":", 2)
        yield path, int(line), "spelling", message.strip()
