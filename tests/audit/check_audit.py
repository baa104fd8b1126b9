"""docs/audit.md is what `aurum audit` prints today, and every row of the articles is in it.

  check_audit.py AURUM [--update]

Run from the root of the source tree. --update writes the file anew: look at the difference before you commit it.
"""

import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path("docs/audit.md")
ROWS = [f"A{i}" for i in range(1, 23)] + [f"B{i}" for i in range(1, 21)]


def run(aurum, *arguments):
    return subprocess.run([aurum, "audit", *arguments], check=True, capture_output=True, text=True).stdout


def main(arguments):
    aurum = arguments[0]
    claims = json.loads(run(aurum, "--json"))["claims"]
    complaints = [f"row {row} has no claim" for row in ROWS if not any(c["row"] == row for c in claims)]
    for row in ROWS:
        scenarios = list(pathlib.Path("scenarios/articles").glob(f"{row.lower()}-*.json"))
        if not scenarios:
            complaints.append(f"row {row} has no scenario in scenarios/articles")
    complaints += [f"{c['id']}: no scenario {c['scenario']}" for c in claims if c["scenario"] and not pathlib.Path(c["scenario"]).is_file()]
    page = "# Claims, recomputed\n\nWhat `aurum audit -v` prints; [articles.md](articles.md) says how to read it.\n\n" + run(aurum, "-v", "--format", "md")
    if "--update" in arguments:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
        complaints.append(f"{PAGE} is not what aurum audit prints: ./dev audit --update writes it, after a look at what changed")
    for line in complaints:
        print(line)
    print(f"{len(claims)} claims, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
