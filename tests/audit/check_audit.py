"""docs/audit.md is what `aurum audit` prints today, every row of the articles is in it, and scenarios/articles/README.md lists their
scenarios.

  check_audit.py AURUM [--update]

Run from the root of the source tree. --update writes both files anew: look at the difference before you commit it.
"""

import json
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path("docs/audit.md")
LIST = pathlib.Path("scenarios/articles/README.md")
FOLDER = pathlib.Path("scenarios/articles")
ROWS = [f"A{i}" for i in range(1, 23)] + [f"B{i}" for i in range(1, 21)]


def run(aurum, *arguments):
    return subprocess.run([aurum, "audit", *arguments], check=True, capture_output=True, text=True).stdout


def row_of(path):
    """("A", 15) of a15-experts.json; what belongs to no row comes last."""
    found = re.match(r"([ab])(\d+)-", path.name)
    return (found[1].upper(), int(found[2])) if found else ("~", 0)


def listing():
    lines = [
        "# Scenarios of two articles",
        "",
        "One or more for every row of [docs/articles.md](../../docs/articles.md): systems and techniques that two articles on training multimodal models",
        "name. `aurum simulate FILE` runs one, `--set` changes it; the claims about it are in [claims](claims), and `aurum audit ROW -v` computes them again.",
        "",
        "| row | file | asks |",
        "|---|---|---|",
    ]
    for path in sorted(FOLDER.glob("*.json"), key=lambda path: (row_of(path), path.name)):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.get("schema") != "aurum.scenario/1":
            continue
        row = "".join(str(part) for part in row_of(path)) if row_of(path)[1] else ""
        lines.append(f"| {row} | {path.name} | {document['question']} |")
    return "\n".join(lines) + "\n"


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
        LIST.write_text(listing(), encoding="utf-8")
    elif not LIST.is_file() or LIST.read_text(encoding="utf-8") != listing():
        complaints.append(f"{LIST} does not list the scenarios: ./dev audit --update")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
        complaints.append(f"{PAGE} is not what aurum audit prints: ./dev audit --update writes it, after a look at what changed")
    for line in complaints:
        print(line)
    print(f"{len(claims)} claims, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
