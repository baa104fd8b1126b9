"""aurum compare from outside: golden transcripts, exit codes, error texts. Runs from the root of the source tree.

A transcript is what a reader of the handbook would see: the command, its standard output, its exit code. AURUM_UPDATE_GOLDEN=1
writes them anew: a change of one says that an answer has changed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

AURUM = sys.argv.pop(1)
GOLDEN = pathlib.Path("tests/compare/golden")
EIGHT = "scenarios/compare/llava-1.5-13b-8xa100.json"
TWO_NODES = "scenarios/compare/llava-1.5-13b-2x4xa100-40.json"
ONE_NODE = "scenarios/compare/qwen2.5-vl-7b-8xa100.json"
SIXTEEN = "scenarios/compare/qwen2.5-vl-7b-16xa100.json"
FINETUNE = "scenarios/llava-1.6-7b-finetune-8xa100.json"


def aurum(*words):
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run([AURUM, *words], capture_output=True, text=True, timeout=120, env=environment)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def sweep(self, name, *words):
        ran = aurum("sweep", FINETUNE, "--vary", "plan.micro_batch_size=1,2,4", "--vary", "workload.text_tokens=256,512,1024",
                    "-q", "-o", self.path(name), *words)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return self.path(name)


class Transcripts(Files):
    def check(self, name, *words, code=0):
        ran = aurum("compare", *words)
        self.assertEqual(ran.returncode, code, ran.stderr)
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        text = f"$ aurum compare {shown}\n{ran.stdout}[exit code {ran.returncode}]\n"
        text = text.replace(str(self.folder) + "/", "")
        golden = GOLDEN / (name + ".txt")
        if os.environ.get("AURUM_UPDATE_GOLDEN"):
            GOLDEN.mkdir(exist_ok=True)
            golden.write_text(text, encoding="utf-8")
        self.maxDiff = None
        self.assertEqual(golden.read_text(encoding="utf-8"), text)

    def test_q11_two_nodes_of_four_against_one_of_eight(self):
        self.check("q11", EIGHT, TWO_NODES)

    def test_q19_more_gpus_and_no_speed_up(self):
        self.check("q19", ONE_NODE, SIXTEEN)

    def test_one_change_of_a_recipe(self):
        self.check("one-change", FINETUNE, "--set-b", "plan.recompute=none", "--fail-if", "step_time_s > 5%",
                   "--fail-if", "memory.peak_gib > +2", code=5)

    def test_two_clusters(self):
        self.check("clusters", "8xa100-hgx", "8xh100-hgx", "--scenario", FINETUNE)

    def test_two_sweeps(self):
        a = self.sweep("a.db")
        b = self.sweep("b.db", "--set", "plan.recompute=selective")
        self.check("sweeps", a, b, "--fail-if", "peak_gib > 50%", code=5)


class Command(Files):
    def test_a_scenario_and_its_result_are_the_same(self):
        result = self.path("r.json")
        self.assertEqual(aurum("simulate", FINETUNE, "--json", "-o", result).returncode, 0)
        ran = aurum("compare", FINETUNE, result, "--json", "--fail-if", "step_time_s >= 1e-9%")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        document = json.loads(ran.stdout)
        self.assertEqual(document["summary"], "nothing differs")
        self.assertTrue(document["b"]["simulated"])
        self.assertEqual(document["time"]["change_ps"], 0)
        self.assertFalse(document["failed"])

    def test_a_cluster_takes_the_other_sides_scenario(self):
        one = aurum("compare", FINETUNE, "16xa100-hdr", "--json", "--no-substitute")
        two = aurum("compare", "8xa100-hgx", "16xa100-hdr", "--scenario", FINETUNE, "--json", "--no-substitute")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertEqual(json.loads(one.stdout)["time"], json.loads(two.stdout)["time"])
        self.assertNotIn("substitution", json.loads(one.stdout))
        self.assertEqual(json.loads(one.stdout)["scaling"]["ideal_speedup"], 2)

    def test_set_of_one_side_and_of_both(self):
        words = ("compare", FINETUNE, "--set-b", "plan.micro_batch_size=4", "--json")
        both = aurum(*words, "--set", "workload.text_tokens=1024")
        plain = aurum(*words)
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertEqual([c["path"] for c in json.loads(both.stdout)["inputs_differ"]], ["plan.micro_batch_size"])
        self.assertGreater(json.loads(both.stdout)["time"]["a_s"], json.loads(plain.stdout)["time"]["a_s"])
        back = aurum(*words, "--set-a", "plan.micro_batch_size=4")
        self.assertEqual(json.loads(back.stdout)["summary"], "nothing differs")

    def test_every_format(self):
        words = ("compare", FINETUNE, "--set-b", "plan.sharding=zero2")
        csv = aurum(*words, "--format", "csv").stdout.splitlines()
        self.assertEqual(csv[0], "figure,a,b,change,relative_change")
        self.assertTrue(any(line.startswith("step_time_s,") for line in csv))
        markdown = aurum(*words, "--format", "md").stdout
        self.assertIn("| where the seconds are |", markdown)
        self.assertEqual(len(aurum(*words, "--format", "jsonl").stdout.splitlines()), 1)

    def test_jsons_of_sweeps(self):
        a, b = self.sweep("a.db"), self.sweep("b.db", "--set", "stack=deepspeed-zero")
        ran = aurum("compare", a, b, "--json", "--by", "peak_gib")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        points = json.loads(ran.stdout)["points"]
        self.assertEqual((points["both"], points["joined_by"], points["ordered_by"]), (9, "axis values", "peak_gib"))

    def test_refusals(self):
        result, store = self.path("r.json"), self.sweep("a.db")
        self.assertEqual(aurum("simulate", FINETUNE, "--json", "-o", result).returncode, 0)
        for code, exit_code, words in (
                ("E0880", 3, ("models/catalogue/gpt-3-175b.json", FINETUNE)),
                ("E0881", 2, (FINETUNE, "--set-b", "plan.micro_batch_size=4", "--fail-if", "speed > 5%")),
                ("E0882", 2, (FINETUNE, FINETUNE, "--fail-if", "step_time_s")),
                ("E0884", 2, (FINETUNE,)),
                ("E0884", 2, ("8xa100-hgx", "8xh100-hgx")),
                ("E0884", 2, (FINETUNE, FINETUNE, "--scenario", FINETUNE)),
                ("E0884", 2, (store, FINETUNE)),
                ("E0884", 2, (store, store, "--set", "plan.micro_batch_size=4")),
                ("E0884", 2, (result, result, "--set-a", "plan.micro_batch_size=4")),
                ("E0884", 2, (result, "8xh100-hgx")),
                ("E0884", 2, (FINETUNE, FINETUNE, "--by", "peak_gib")),
                ("E0220", 3, (FINETUNE, "8xh1000-hgx")),
                ("E0201", 3, (FINETUNE, "missing.json")),
                ("E0205", 2, (FINETUNE, result, "-o", result)),
                ("E0001", 2, (FINETUNE, FINETUNE, FINETUNE))):
            ran = aurum("compare", *words)
            self.assertEqual(ran.returncode, exit_code, ran.stderr)
            self.assertIn(f"error[{code}]", ran.stderr)

    def test_what_failed_is_said(self):
        ran = aurum("compare", ONE_NODE, SIXTEEN, "--fail-if", "samples_per_s < 80%", "--fail-if", "mfu > 0.9", "-q")
        self.assertEqual(ran.returncode, 5)
        self.assertIn("error[E0887]", ran.stderr)
        self.assertIn("samples_per_s", ran.stderr)
        self.assertNotIn("mfu", ran.stderr)


if __name__ == "__main__":
    unittest.main()
