"""The schemas of docs/schema and the readers of the program accept and reject the same.

  check_agreement.py READ_DOCUMENTS      (the program built from read_documents.cc)

Valid files are changed in one place at a time: a key dropped, an unknown key added, a value of another type, a value out
of any range. What the schema rejects, the reader must reject. What the reader rejects for its form (E0101 unknown key, E0102 missing
key, E0103 type, E0107 range, E0108 choice), the schema must reject; contradictions between values (E03xx, E05xx, …) are
the reader's business alone. Every distinct place of a kind is changed once, in the first file that has it; the files of
tests/schema/examples have the keys that no shipped file has. Run from the root of the source tree.
"""

import copy
import json
import pathlib
import subprocess
import sys

from check_files import SHIPPED, complaint, load, matches, validator

FORM = ("E0101", "E0102", "E0103", "E0107", "E0108")


def places(value, path=()):
    """Yields (path, value) of every value below the root, itself included."""
    yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, path + (key,))


def shape(path):
    return tuple("*" if isinstance(key, int) else key for key in path)


def changed(document, path, change):
    """A copy of the document with `change` applied to the container of `path` and its last key."""
    copied = copy.deepcopy(document)
    at = copied
    for key in path[:-1]:
        at = at[key]
    change(at, path[-1])
    return copied


def mutations(document, path, value):
    """Yields (what, document). Values are never null: to our readers a null is an absent key."""

    def put(new):
        return lambda container, key: container.__setitem__(key, new)

    if path and not isinstance(path[-1], int):
        yield "dropped", changed(document, path, lambda container, key: container.pop(key))
    if isinstance(value, dict):
        copied = copy.deepcopy(document)
        at = copied
        for key in path:
            at = at[key]
        at["surprise"] = 1
        yield "unknown key", copied
    if not path:
        return
    if path[-1] == "values" or (len(path) > 1 and path[-2] == "values"):
        return  # of an axis: anything
    others = {dict: [7], list: {}, str: 7, bool: "yes", int: "seven", float: "seven"}
    yield "another type", changed(document, path, put(others[type(value)]))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for number in (-1, 0, 0.5, 1e30, -1e30):
            yield f"{number}", changed(document, path, put(number))
    if isinstance(value, str):
        yield "another word", changed(document, path, put("surprise"))


def schema_keys(schema, root, path=(), home=(), seen=()):
    """Yields (key, shape) of all places that a schema describes; a definition used in several places has its keys once."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].split("/")[-1]
        if seen.count(name) > 1:
            return
        yield from schema_keys(root["$defs"][name], root, path, ("$defs", name), seen + (name,))
    for key, value in schema.get("properties", {}).items():
        yield home + (key,), path + (key,)
        yield from schema_keys(value, root, path + (key,), home + (key,), seen)
    if isinstance(schema.get("items"), dict):
        yield from schema_keys(schema["items"], root, path + ("*",), home + ("*",), seen)
    for word in ("allOf", "anyOf", "oneOf"):
        for value in schema.get(word, []):
            yield from schema_keys(value, root, path, home, seen)
    yield from schema_keys(schema.get("then"), root, path, home, seen)


def main(reader):
    cases = []  # (kind, file, what, document, the schema's complaint)
    complaints = []
    for kind, pattern in SHIPPED.items():
        check = validator(kind)
        files = matches(pattern) + sorted(pathlib.Path("tests/schema/examples").glob(f"{kind}*.json"))
        seen = set()
        unknown = set()  # only ever null: nobody measured it
        for path in files:
            document = load(path)
            if kind == "cluster" and "family" in document:  # the smallest of its clusters stands for it
                family = document.pop("family")
                document |= {"name": "instance", "nodes": family["listed_gpus"][0] // document["node"]["gpus"]}
            cases.append((kind, str(path), "as it is", document, complaint(check, document)))
            for place, value in places(document):
                if value is None:
                    unknown.add(shape(place))
                if shape(place) in seen or value is None:
                    continue
                seen.add(shape(place))
                for what, mutant in mutations(document, place, value):
                    where = "/" + "/".join(map(str, place))
                    cases.append((kind, str(path), f"{where}: {what}", mutant, complaint(check, mutant)))
        described = {}
        for key, place in schema_keys(check.schema, check.schema):
            described.setdefault(key, set()).add(place)
        for key, shapes in described.items():
            if key[0] not in ("family", "$schema") and not shapes & (seen | unknown):
                complaints.append(f"{kind}: no file has the key {'/'.join(key)}: add it to one of tests/schema/examples")

    # Compact: the reader takes one document a line, with the path that the document's own paths are relative to.
    text = "".join(f"{kind} {path} {json.dumps(document, separators=(',', ':'))}\n" for kind, path, _, document, _ in cases)
    run = subprocess.run([reader], input=text, capture_output=True, text=True, check=True)
    verdicts = run.stdout.splitlines()
    if len(verdicts) != len(cases):
        sys.exit(f"{len(cases)} documents, but {len(verdicts)} verdicts")
    rejected = 0
    for (kind, path, what, _, by_schema), by_reader in zip(cases, verdicts):
        accepts = by_reader == "ok"
        rejected += not accepts
        if what == "as it is" and not (accepts and by_schema is None):
            complaints.append(f"{path}: valid, but the reader says {by_reader!r} and the schema {by_schema!r}")
        elif accepts and by_schema is not None:
            complaints.append(f"{path}: {what}: accepted by the reader, but the schema says {by_schema}")
        elif by_reader.startswith(FORM) and by_schema is None:
            complaints.append(f"{path}: {what}: accepted by the schema, but the reader says {by_reader}")
    for line in complaints:
        print(line)
    print(f"{len(cases)} documents, {rejected} rejected by the reader, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
