"""Calibrate two processor cores, predict, execute on two MPI ranks, compare: by CPU time, within 25 %.

On a machine that is busy few samples are undisturbed; with fewer than 5 % of the steps clean, a comparison would be one of
the machine's other work, and is skipped in so many words. Cores change their speed with what else their host does: where a
plan is not within 25 %, they are calibrated again, and only if that contradicts the first time the plan has a second run.
Wall time is told and never judged.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from loop import Loop

PLANS = ["dp", "tp", "pp"]
CLEAN_SHARE = 0.05
TOLERANCE = "25%"
CONTRADICTION = 0.15  # between what two calibrations of the same cores predict


def scenario(plan):
    return f"scenarios/loop-cpu-{plan}.json"


def processes(pids):
    return [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists() and
            pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"]


class Cpu(Loop):
    profile = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kept = cls()
        cls.kept.setUp()
        cls.profile = cls.calibrated("cores")

    @classmethod
    def calibrated(cls, name):
        profile = cls.kept.path(name + ".json")
        plans = [word for plan in PLANS for word in ("--for", scenario(plan))]
        cls.kept.ok("calibrate", "--backend", "cpu", "--ranks", 2, "--budget", 60, *plans, "--name", name, "-o", profile)
        return profile

    @classmethod
    def tearDownClass(cls):
        cls.kept.doCleanups()

    def run_and_compare(self, plan):
        """The comparison's exit code and errors, and the step that was predicted."""
        run = self.path(plan + ".json")
        self.ok("execute", scenario(plan), "--backend", "cpu", "--profile", self.profile, "--steps", 20, "-o", run)
        record = json.loads(pathlib.Path(run).read_text())
        steps, clean = len(record["steps_s"]), len(record["clean_steps_s"])
        if clean < CLEAN_SHARE * steps:
            self.skipTest(f"{clean} of {steps} steps were undisturbed: the machine is too busy to compare")
        code, document, errors = self.comparison(scenario(plan), run, "--profile", self.profile, "--tolerance", TOLERANCE)
        step = document["metrics"]["step_time_s"]
        print(f"{plan}: predicted {step['predicted']:.4f} s, measured {step['measured']:.4f} s "
              f"({100 * step['relative_error']:+.1f} %), {clean} of {steps} steps clean", file=sys.stderr)
        return code, errors, step["predicted"]

    def test_three_plans_within_tolerance(self):
        for plan in PLANS:
            with self.subTest(plan=plan):
                code, errors, predicted = self.run_and_compare(plan)
                if code != 0 and self.profile.endswith("cores.json"):
                    Cpu.profile = self.calibrated("cores-again")
                    code_again, errors_again, predicted_again = self.run_and_compare(plan)
                    if abs(predicted_again / predicted - 1) > CONTRADICTION:
                        print(f"{plan}: the cores changed their speed: a second calibration predicts "
                              f"{predicted_again / predicted:.2f} × the first", file=sys.stderr)
                        code, errors = code_again, errors_again
                self.assertEqual(code, 0, errors)

    def start(self):
        """A run that would not end, its ranks' process ids, and the record that it must not leave."""
        run = pathlib.Path(self.path("run.json"))
        child = subprocess.Popen([self.aurum, "execute", scenario("pp"), "--backend", "cpu", "--profile", self.profile,
                                  "--steps", "100000", "-o", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "NO_COLOR": "1"})
        pids, lines = {}, []
        while "warm-up done" not in "".join(lines):  # the ranks are in the middle of their steps
            line = child.stderr.readline()
            self.assertTrue(line, "".join(lines))
            lines.append(line)
            told = re.search(r"2 ranks, processes (\d+), (\d+)", line)
            if told:
                pids = {0: int(told[1]), 1: int(told[2])}
        self.assertEqual(len(pids), 2)
        return child, pids, run

    def check_gone(self, child, pids, run):
        deadline = time.time() + 20
        while processes(pids.values()) and time.time() < deadline:
            time.sleep(0.1)
        self.assertEqual(processes(pids.values()), [])
        self.assertFalse(run.exists())

    def test_a_killed_rank_is_named(self):
        child, pids, run = self.start()
        os.kill(pids[1], signal.SIGKILL)
        _, errors = child.communicate(timeout=60)
        self.assertIn("E0910", errors)
        self.assertRegex(errors, r"rank 1 was killed by signal 9")
        self.assertNotEqual(child.returncode, 0)
        self.check_gone(child, pids, run)

    def test_a_hung_rank_is_named(self):
        child, pids, run = self.start()
        os.kill(pids[0], signal.SIGSTOP)
        _, errors = child.communicate(timeout=120)
        self.assertIn("E0911", errors)
        self.assertRegex(errors, r"rank 0 .*hangs")
        self.assertNotEqual(child.returncode, 0)
        self.check_gone(child, pids, run)

    def test_an_interrupt_leaves_nothing(self):
        child, pids, run = self.start()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.check_gone(child, pids, run)

    def test_a_killed_parent_leaves_nothing(self):
        child, pids, run = self.start()
        child.kill()
        child.communicate(timeout=60)
        self.check_gone(child, pids, run)


if __name__ == "__main__":
    Loop.aurum = sys.argv.pop(1)
    unittest.main(verbosity=1)
