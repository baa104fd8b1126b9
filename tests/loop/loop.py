"""The loop from outside: calibrate, execute, validate. Shared by its tests; runs from the root of the source tree."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest


class Loop(unittest.TestCase):
    aurum = ""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def run_aurum(self, *words, timeout=300):
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run([self.aurum, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              env=environment)

    def ok(self, *words, **options):
        done = self.run_aurum(*words, **options)
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
        return done

    def comparison(self, scenario, run, *words):
        """Exit code and document of `validate --measured`."""
        done = self.run_aurum("validate", scenario, "--measured", run, "--json", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr
