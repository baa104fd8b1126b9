"""Calibrate on a machine whose truth is hidden, predict, execute on logical clocks, compare: within 1 %."""

import json
import pathlib
import sys
import unittest

from loop import Loop

PLANS = ["dp", "tp", "pp", "fsdp", "ep", "vlm"]
HIDDEN = ["--backend", "virtual", "--truth", "h100", "--noise", "0.005"]


def scenario(plan):
    return f"scenarios/loop-{plan}.json"


class Virtual(Loop):
    def test_six_plans_within_one_percent(self):
        """The profile is fitted on noisy samples of the truth; neither prediction nor ranks see the other."""
        profile = self.path("fitted.json")
        plans = [word for plan in PLANS for word in ("--for", scenario(plan))]
        self.ok("calibrate", *HIDDEN, "--seed", 7, *plans, "--name", "fitted", "-o", profile)
        for plan in PLANS:
            run = self.path(plan + ".json")
            self.ok("execute", scenario(plan), *HIDDEN, "--seed", 11, "--profile", profile, "-o", run)
            code, document, errors = self.comparison(scenario(plan), run, "--profile", profile, "--tolerance", "1%")
            with self.subTest(plan=plan):
                self.assertEqual(code, 0, errors)
                step = document["metrics"]["step_time_s"]
                self.assertLess(abs(step["relative_error"]), 0.01)
                self.assertGreater(abs(step["relative_error"]), 0)  # they are two sources
                self.assertTrue(document["ops"])

    def test_without_the_exact_shapes(self):
        """Random shapes alone: what a profile does for a plan that it was not made for."""
        profile = self.path("fitted.json")
        self.ok("calibrate", *HIDDEN, "--name", "fitted", "-o", profile)
        for plan in ("dp", "tp", "fsdp"):
            run = self.path(plan + ".json")
            self.ok("execute", scenario(plan), *HIDDEN, "--profile", profile, "-o", run)
            code, document, errors = self.comparison(scenario(plan), run, "--profile", profile, "--tolerance", "5%")
            with self.subTest(plan=plan):
                self.assertEqual(code, 0, errors)

    def test_the_same_bytes_again(self):
        outs = []
        for name in ("a", "b"):
            profile, run = self.path(name + "-profile.json"), self.path(name + "-run.json")
            self.ok("calibrate", *HIDDEN, "--name", "fitted", "-o", profile)
            self.ok("execute", scenario("tp"), *HIDDEN, "-o", run)
            record = json.loads(pathlib.Path(run).read_text())
            for told in ("command_line", "date", "run_id"):  # the last is a hash of the others too
                record.pop(told)
            outs.append((pathlib.Path(profile).read_text(), record))
        self.assertEqual(outs[0], outs[1])

    def test_a_wrong_profile_is_caught(self):
        run = self.path("run.json")
        self.ok("execute", scenario("tp"), "--backend", "virtual", "--truth", "h100", "-o", run)
        code, document, errors = self.comparison(scenario("tp"), run, "--profile", "a100")
        self.assertEqual(code, 5)
        self.assertIn("E0980", errors)
        self.assertGreater(document["metrics"]["step_time_s"]["relative_error"], 0.5)

    def test_a_wrong_plan_is_caught(self):
        run = self.path("run.json")
        self.ok("execute", scenario("tp"), "--backend", "virtual", "-o", run)
        done = self.run_aurum("validate", scenario("tp"), "--measured", run, "--set", "plan.sharding=ddp")
        self.assertEqual(done.returncode, 3)
        self.assertIn("E0981", done.stderr)
        self.assertIn("sharding", done.stderr)

    def test_a_lone_rank(self):
        for rank in (0, 5):
            run = self.path(f"rank-{rank}.json")
            self.ok("execute", scenario("pp"), "--backend", "virtual", "--rank", rank, "-o", run)
            code, document, errors = self.comparison(scenario("pp"), run, "--tolerance", "0.001")
            self.assertEqual(code, 0, errors)
        big = self.path("big.json")
        self.ok("execute", "scenarios/llama-3.1-405b-16384xh100.json", "--backend", "virtual", "--rank", "9000", "-o", big)

    def test_a_lone_rank_that_is_too_fast(self):
        """Modelled delays fill its step up, so its kernels are judged."""
        run = self.path("rank.json")
        self.ok("execute", scenario("pp"), "--backend", "virtual", "--truth", "h100", "--rank", 2, "-o", run)
        code, document, errors = self.comparison(scenario("pp"), run, "--profile", "a100")
        self.assertEqual(code, 5)
        self.assertIn("compute of this rank", errors)
        self.assertGreater(document["metrics"]["compute_s"]["relative_error"], 0.5)

    def test_no_input_is_replaced(self):
        profile = self.path("own.json")
        self.ok("calibrate", *HIDDEN, "--budget", 5, "--name", "own", "-o", profile)
        before = pathlib.Path(profile).read_text()
        run = self.path("run.json")
        self.ok("execute", scenario("tp"), "--backend", "virtual", "--profile", profile, "-o", run)
        for words in (("execute", scenario("tp"), "--backend", "virtual", "--profile", profile, "-o", profile),
                      ("execute", scenario("tp"), "--backend", "virtual", "--truth", profile, "-o", profile),
                      ("simulate", scenario("tp"), "--set", f"profile={profile}", "--json", "-o", profile),
                      ("validate", scenario("tp"), "--profile", profile, "--measured", run, "--html", profile),
                      ("calibrate", *HIDDEN, "--base", profile, "--force", "-o", run, "--measurements", profile),
                      ("calibrate", *HIDDEN, "-o", self.path("x"), "--measurements", self.path("x"))):
            done = self.run_aurum(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("E0205", done.stderr)
        self.assertEqual(pathlib.Path(profile).read_text(), before)

    def test_a_record_that_contradicts_itself(self):
        run = self.path("run.json")
        self.ok("execute", scenario("tp"), "--backend", "virtual", "-o", run)
        for key, value in (("step_time_s", lambda r: 2 * r["step_time_s"]), ("clean_steps_s", lambda r: [9.0])):
            record = json.loads(pathlib.Path(run).read_text())
            record[key] = value(record)
            changed = pathlib.Path(self.path("changed.json"))
            changed.write_text(json.dumps(record))
            done = self.run_aurum("validate", scenario("tp"), "--measured", changed)
            self.assertEqual(done.returncode, 3)
            self.assertIn("E0901", done.stderr)

    def test_nothing_is_written_where_nothing_ran(self):
        run = pathlib.Path(self.path("run.json"))
        done = self.run_aurum("execute", scenario("tp"), "--backend", "virtual", "--rank", "99", "-o", run)
        self.assertEqual(done.returncode, 2)
        self.assertIn("E0902", done.stderr)
        done = self.run_aurum("execute", scenario("tp"), "--backend", "virtual", "--truth", "no-such", "-o", run)
        self.assertEqual(done.returncode, 3)
        self.assertFalse(run.exists())


if __name__ == "__main__":
    Loop.aurum = sys.argv.pop(1)
    unittest.main(verbosity=1)
