"""How many instructions five runs take, against what was recorded: a rise of more than 5 % is a failure.

  check_instructions.py AURUM COMPILER [--update]

Wall time on a shared machine is noise; the instructions of a deterministic program are not. valgrind counts them. What was
recorded holds for one compiler; with another nothing is counted. A change that costs more on purpose
states it by recording anew: ./dev instructions --update. Exit code 77: not judged.
"""

import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys

RECORD = pathlib.Path("tests/instructions/instructions.json")
MOST = 1.05
NOT_JUDGED = 77


def count(aurum, arguments):
    """Instructions of one run, or a message that says why there are none."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", aurum, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):  # 4: simulated, but it would not fit
        return f"exit code {done.returncode}: {done.stderr[-400:]}"
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    return int(found.group(1)) if found else f"valgrind says nothing: {done.stderr[-400:]}"


def main():
    aurum, compiler, update = sys.argv[1], sys.argv[2], "--update" in sys.argv[3:]
    if shutil.which("valgrind") is None:
        print("valgrind is not here: instructions are not counted")
        return NOT_JUDGED
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    judged = record["compiler"] == compiler
    if not judged and not update:
        print(f"recorded with {record['compiler']}, this is {compiler}: not judged")
        return NOT_JUDGED
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda case: count(aurum, case["arguments"]), record["cases"]))
    failed = False
    for case, now in zip(record["cases"], counts):
        if isinstance(now, str):
            print(f"{case['name']}: {now}")
            failed = True
            continue
        before = case["instructions"]
        print(f"{case['name']}: {now:,} instructions, recorded {before:,} ({now / before - 1:+.1%})")
        if update:
            case["instructions"] = now
        elif now > MOST * before:
            print("  more than 5 % above: mend it, or record it with ./dev instructions --update and say why")
            failed = True
    if update and not failed:
        record["compiler"] = compiler
        RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        return 0
    if failed:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
