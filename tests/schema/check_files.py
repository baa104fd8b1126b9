"""Every shipped file is what its schema in docs/schema says, and so are the files named on the command line.

  check_files.py [KIND=FILE...]      KIND: scenario, model, cluster, profile, stack, traffic, result, published, run, explain

Run from the root of the source tree. Every shipped kind must have at least one file once its folder exists: an empty
catalogue would pass any check.
"""

import json
import pathlib
import sys

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

SHIPPED = {
    "scenario": "scenarios/*.json scenarios/articles/*.json scenarios/compare/*.json",
    "scenario": "scenarios/*.json scenarios/articles/*.json scenarios/questions/*.json",
    "claims": "scenarios/articles/claims/*.json",
    "model": "models/catalogue/*.json",
    "cluster": "topologies/catalogue/**/*.json scenarios/compare/clusters/*.json",
    "profile": "calibrate/profiles/*.json",
    "stack": "calibrate/stacks/*.json",
    "traffic": "scenarios/traffic/*.json",
    "series": "scenarios/series/*.json",
    "published-sources": "calibrate/published/sources.json",
}
# Shipped as well, but read by tests alone: the program has no reader that could disagree.
TESTS_ONLY = {"published-errors": "calibrate/published/errors.json"}


def matches(patterns):
    """Files that one of the patterns, with blanks between them, matches."""
    return sorted(path for pattern in patterns.split() for path in pathlib.Path(".").glob(pattern))


def load(path):
    """Strict where Python's reader is lax: no duplicate keys, no NaN."""

    def no_duplicates(pairs):
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"{path}: a key is there twice")
        return dict(pairs)

    def no_constant(name):
        raise ValueError(f"{path}: {name} is not JSON")

    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"), object_pairs_hook=no_duplicates, parse_constant=no_constant)


def validator(kind):
    schema = load(f"docs/schema/{kind}.schema.json")
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def complaint(check, document):
    """None, or where and what."""
    error = best_match(check.iter_errors(document))
    return None if error is None else f"{error.json_path}: {error.message}"


def described(schema, path=""):
    """Yields the properties that an editor could not explain."""
    for name, value in schema.get("properties", {}).items():
        if isinstance(value, bool):
            continue
        if "description" not in value and ("type" in value or "enum" in value):
            yield f"{path}/{name}"
        yield from described(value, f"{path}/{name}")
    for name, value in schema.get("$defs", {}).items():
        yield from described(value, f"{path}/$defs/{name}")
    if isinstance(schema.get("items"), dict):
        yield from described(schema["items"], f"{path}/items")


def main(arguments):
    files = [(kind, str(path)) for kind, pattern in (SHIPPED | TESTS_ONLY).items() for path in matches(pattern)]
    files += [tuple(argument.split("=", 1)) for argument in arguments]
    complaints = []
    for kind in (*SHIPPED, *TESTS_ONLY, "result", "phases", "published", "run", "step", "comparison", "search", "launch"):
        complaints += [f"{kind}.schema.json: {place} has no description" for place in described(validator(kind).schema)]
    for kind, pattern in (SHIPPED | TESTS_ONLY).items():
        if pathlib.Path(pattern.split("/*")[0]).is_dir() and not any(k == kind for k, _ in files):
            complaints.append(f"{pattern}: no files")
    validators = {}
    for kind, path in files:
        if kind not in validators:
            validators[kind] = validator(kind)
        try:
            found = complaint(validators[kind], load(path))
        except (OSError, ValueError) as error:
            found = str(error)
        if found is not None:
            complaints.append(f"{path}: {found}")
    for line in complaints:
        print(line)
    print(f"{len(files)} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
