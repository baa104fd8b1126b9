"""What `aurum explain` says of three questions that users ask is what is committed, byte for byte.

  check_transcripts.py AURUM

Every file of tests/explain/golden begins with its command behind "$ " and holds what that prints. A change of it says that an
answer has changed: AURUM_UPDATE_GOLDEN=1 writes the files anew. Run from the root of the source tree.
"""

import difflib
import os
import pathlib
import shlex
import subprocess
import sys

GOLDEN = pathlib.Path("tests/explain/golden")


def transcript(aurum, command):
    words = shlex.split(command)
    assert words[0] == "aurum", command
    ran = subprocess.run([aurum, *words[1:]], capture_output=True, text=True, timeout=300, env={**os.environ, "NO_COLOR": "1"})
    return f"$ {command}\n{ran.stdout}{ran.stderr}" + (f"exit code {ran.returncode}\n" if ran.returncode else "")


def main():
    aurum = sys.argv[1]
    files = sorted(GOLDEN.glob("*.txt"))
    if len(files) < 3:
        sys.exit(f"{GOLDEN} has {len(files)} transcripts: it should have one for each of three questions")
    wrong = 0
    for path in files:
        told = path.read_text(encoding="utf-8")
        command = told.split("\n", 1)[0].removeprefix("$ ")
        now = transcript(aurum, command)
        if now == told:
            continue
        if os.environ.get("AURUM_UPDATE_GOLDEN"):
            path.write_text(now, encoding="utf-8")
            continue
        wrong += 1
        sys.stdout.writelines(difflib.unified_diff(told.splitlines(True), now.splitlines(True), str(path), "now"))
    if wrong:
        sys.exit(f"{wrong} of {len(files)} transcripts differ; AURUM_UPDATE_GOLDEN=1 writes them anew")


if __name__ == "__main__":
    main()
