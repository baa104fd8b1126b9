"""docs/diagnostics.md lists every diagnostic that the sources can give, and no other.

A code is written as a number where it is thrown: in a call or an initialiser of something whose name says that it fails
(ThrowInput(201, ...), reader.Fail(103, ...), Infeasible(reader, 311, ...), Problem{701, ...}, Warn(...)) as the first or second
argument, or in an assignment to `code`; or it is written as text ("W1750"). Run from the root of the source tree.
"""

import pathlib
import re
import sys

ROOMS = ["sim", "models", "topologies", "calibrate", "real", "reports", "cli"]
CALL = re.compile(
    r"\b\w*(?:[Ff]ail|[Tt]hrow|[Ww]arn|[Ii]nfeasible|[Pp]roblem|[Ee]rror|[Rr]eject|[Rr]efuse|[Dd]iagnos)\w*\s*[({]"
    r"\s*(?:\{?\s*(\d{1,4})|[^(),;\"]*?,\s*(\d{1,4}))\s*,"
)
# A catalogue's own "no such name": the code stands behind the folder.
OPENED = re.compile(r"\bOpenFromCatalogue\([^;]*?,\s*(\d{3})\s*,")
ASSIGNED = re.compile(r"\bcode\s*=(?!=)([^;]*);")
TEXT = re.compile(r"\"[EW](\d{4})\"")
NUMBER = re.compile(r"(?<![\w.])\d{3,4}(?![\w.])")
ROW = re.compile(r"^\| ([EW])(\d{4}) \| (.+?) \| (.+?) \|$")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def thrown_codes():
    places = {}
    for room in ROOMS:
        for path in sorted(pathlib.Path(room).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu") or "node_modules" in path.parts:
                continue
            text = without_comments(path.read_text(encoding="utf-8"))
            numbers = [first or second for first, second in CALL.findall(text)] + TEXT.findall(text) + OPENED.findall(text) + [n for value in ASSIGNED.findall(text) for n in NUMBER.findall(value)]
            for number in numbers:
                places.setdefault(int(number), str(path))
    return places


def main():
    complaints = []
    listed = []
    for number, line in enumerate(pathlib.Path("docs/diagnostics.md").read_text(encoding="utf-8").splitlines(), 1):
        row = ROW.match(line)
        if row:
            listed.append(int(row[2]))
            if (row[1] == "W") != (int(row[2]) >= 1000):
                complaints.append(f"docs/diagnostics.md:{number}: errors are E0xxx, warnings W1xxx")
        elif re.match(r"^\| *[EW]\d", line):
            complaints.append(f"docs/diagnostics.md:{number}: a row is '| E0123 | what it means | what to do |'")
    thrown = thrown_codes()
    if len(thrown) < 10:
        complaints.append(f"only {len(thrown)} codes were found in the sources: is this the root of the source tree?")
    if listed != sorted(set(listed)):
        complaints.append("docs/diagnostics.md: rows are not in order, or one is there twice")
    for code in sorted(thrown.keys() - set(listed)):
        complaints.append(f"{code:04d} is thrown in {thrown[code]} and not listed in docs/diagnostics.md")
    for code in sorted(set(listed) - thrown.keys()):
        complaints.append(f"{code:04d} is listed in docs/diagnostics.md and thrown nowhere")
    for complaint in complaints:
        print(complaint)
    print(f"{len(thrown)} codes thrown, {len(listed)} listed, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
