"""What aurum emit writes is run: by a shell, with launchers that note what they were given, and read by real parsers.

Runs from the root of the source tree.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

try:
    import yaml
except ImportError:
    yaml = None

AURUM = sys.argv.pop(1)
GPT = "scenarios/gpt-3-175b-64xa100.json"
LLAVA = "scenarios/llava-1.6-7b-finetune-8xa100.json"
LAUNCHER = '#!/bin/bash\nprintf "%s\\0" "$@" > "$NOTED"\n'


def aurum(*words):
    return subprocess.run([AURUM, *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"})


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("torchrun", "deepspeed", "accelerate"):
            (programs / name).write_text(LAUNCHER)
            (programs / name).chmod(0o755)

    def emit(self, scenario, framework, *changes):
        out = self.folder / framework
        words = [word for change in changes for word in ("--set", change)]
        ran = aurum("emit", scenario, "--framework", framework, "-o", str(out), *words)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return out

    def launch(self, out, **environment):
        """From another folder than its own, so that what it names must be found beside it."""
        noted = self.folder / "noted"
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        ran = subprocess.run([os.path.relpath(out / "launch.sh", elsewhere)], cwd=elsewhere, capture_output=True, text=True, timeout=60,
                             env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "NOTED": str(noted), **environment})
        if ran.returncode != 0:
            return ran
        return noted.read_bytes().decode().split("\0")[:-1]

    def test_megatron_gets_words_that_its_parser_takes(self):
        out = self.emit(GPT, "megatron", "plan.schedule=1f1b")
        without = self.launch(out)
        self.assertNotEqual(without.returncode, 0, "NODE_RANK is asked for")
        self.assertIn("NODE_RANK", without.stderr)
        words = self.launch(out, NODE_RANK="3", MASTER_ADDR="first", LR="6e-5")
        program = words.index("pretrain_gpt.py")
        self.assertEqual(words[:program], ["--nproc-per-node", "8", "--nnodes", "8", "--node-rank", "3", "--master-addr",
                                           "first", "--master-port", "29500"])
        parser = argparse.ArgumentParser(allow_abbrev=False)
        for line in pathlib.Path("tests/launch/fixtures/megatron_arguments.txt").read_text().splitlines():
            if line.startswith("--"):
                name, count = line.split()
                parser.add_argument(name, **({"action": "store_true"} if count == "0" else {"nargs": "+"} if count == "+" else {}))
        taken = parser.parse_args(words[program + 1:])
        self.assertEqual(taken.lr, "6e-5")
        self.assertEqual(taken.num_layers, "96")
        self.assertEqual(taken.train_iters, "50")
        self.assertTrue(taken.mock_data)
        # NullTokenizer adds one token: GPT-2's vocabulary in the end.
        self.assertEqual(int(taken.vocab_size) + 1, 50257)
        own = self.launch(out, NODE_RANK="0", MASTER_ADDR="first", DATA_ARGS="--data-path a b --vocab-size 7")
        self.assertEqual(own[own.index("--data-path"):own.index("--vocab-size")], ["--data-path", "a", "b"])
        self.assertNotIn("--mock-data", own)

    def test_a_layer_pattern_reaches_the_program_as_one_word(self):
        out = self.emit(GPT, "megatron", "model=qwen3-30b-a3b", 'plan={"backbone": {"ep": 8}}')
        words = self.launch(out, NODE_RANK="0", MASTER_ADDR="first")
        self.assertEqual(words[words.index("--moe-layer-freq") + 1], "([1]*48)")

    def test_deepspeed(self):
        out = self.emit(LLAVA, "deepspeed", "plan.sharding=zero2")
        self.assertIn("TRAIN_SCRIPT", self.launch(out).stderr)
        words = self.launch(out, TRAIN_SCRIPT="train me.py")
        self.assertEqual(words[:3], ["--num_gpus", "8", "train me.py"])
        self.assertEqual(words[words.index("--learning_rate") + 1], "1e-5")
        named = words[words.index("--deepspeed") + 1]
        self.assertEqual(named, str(out / "ds_config.json"))
        config = json.loads(pathlib.Path(named).read_text())
        # DeepSpeed asserts it when it starts.
        self.assertEqual(config["train_batch_size"],
                         config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * 8)

    def test_accelerate(self):
        out = self.emit(LLAVA, "accelerate", "plan.sharding=hsdp", "plan.shard_group=4")
        words = self.launch(out, TRAIN_SCRIPT="train.py")
        self.assertEqual(words[:4], ["launch", "--config_file", str(out / "accelerate.yaml"), "train.py"])
        if yaml is None:
            self.skipTest("no yaml module here")
        config = yaml.safe_load((out / "accelerate.yaml").read_text())
        self.assertEqual(config["distributed_type"], "FSDP")
        self.assertEqual(config["parallelism_config"]["parallelism_config_dp_shard_size"], 4)
        self.assertIs(config["use_cpu"], False)

    def test_accelerate_finds_deepspeeds_configuration(self):
        out = self.emit(LLAVA, "accelerate", "plan.sharding=zero2")
        # As accelerate does: it reads what it is given while the script waits.
        launcher = self.folder / "bin" / "accelerate"
        launcher.write_text('#!/bin/bash\ncp "$3" "$NOTED.yaml"\nprintf "%s\\0" "$@" > "$NOTED"\n')
        words = self.launch(out, TRAIN_SCRIPT="train.py", TMPDIR=str(self.folder))
        self.assertEqual(words[3], "train.py")
        named = [line.split(": ")[1] for line in (self.folder / "noted.yaml").read_text().splitlines()
                 if "deepspeed_config_file" in line]
        self.assertEqual(named, [str(out / "ds_config.json")])
        self.assertEqual(json.loads(pathlib.Path(named[0]).read_text())["zero_optimization"]["stage"], 2)
        self.assertFalse(pathlib.Path(words[2]).exists(), "the copy is removed")

    def test_torchtitan(self):
        out = self.emit(GPT, "torchtitan", "model=llama-3.1-8b", 'plan={"sharding": "fsdp", "backbone": {"pp": 4}}')
        words = self.launch(out, NODE_RANK="0", MASTER_ADDR="first")
        self.assertEqual(words[words.index("-m"):], ["-m", "torchtitan.train", "--job.config_file", str(out / "torchtitan.toml")])
        config = tomllib.loads((out / "torchtitan.toml").read_text())
        parts = config["parallelism"]["module_fqns_per_model_part"]
        self.assertEqual([len(part) for part in parts], [9, 8, 8, 10])
        self.assertEqual(parts[0][:2], ["tok_embeddings", "layers.0"])
        self.assertEqual(parts[3][-3:], ["layers.31", "norm", "output"])

    def test_refusals_end_with_4_and_write_nothing(self):
        out = self.folder / "none"
        ran = aurum("emit", LLAVA, "--framework", "megatron", "-o", str(out))
        self.assertEqual(ran.returncode, 4)
        self.assertIn("error[E0951]", ran.stderr)
        self.assertFalse(out.exists())

    def test_a_refusal_advises_frameworks_that_take_the_plan(self):
        for scenario, changes in ((GPT, ()), (LLAVA, ()), (LLAVA, ("plan.sharding=zero2",)),
                                  (GPT, ("model=llama-3.1-8b", 'plan={"sharding": "fsdp", "backbone": {"pp": 4}}'))):
            words = [word for change in changes for word in ("--set", change)]
            ends = {}
            for framework in ("megatron", "deepspeed", "torchtitan", "accelerate"):
                ran = aurum("emit", scenario, "-f", framework, *words)
                self.assertIn(ran.returncode, (0, 4), ran.stderr)
                ends[framework] = ran
            takers = [framework for framework, ran in ends.items() if ran.returncode == 0]
            for framework, ran in ends.items():
                if ran.returncode == 0:
                    continue
                help_line = ran.stderr.split("help: ")[-1]
                advised = help_line.split("--framework ")[1].split(",")[0].split(" or ") if "--framework " in help_line else []
                self.assertEqual(advised, takers, f"{scenario} {changes} {framework}: {ran.stderr}")

    def test_the_document_has_the_warnings_of_the_scenario_too(self):
        ran = aurum("emit", "scenarios/articles/b15-curriculum.json", "-f", "deepspeed", "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        told = [warning["code"] for warning in json.loads(ran.stdout)["warnings"]]
        self.assertEqual(told[0], "W1771")  # that phases are left out
        for code in told:
            self.assertIn(code, ran.stderr)

    def test_json_and_listing(self):
        ran = aurum("emit", LLAVA, "-f", "deepspeed", "--set", "plan.sharding=zero2", "--json")
        document = json.loads(ran.stdout)
        self.assertEqual(document["schema"], "aurum.launch/1")
        self.assertEqual([file["name"] for file in document["files"]], ["launch.sh", "ds_config.json"])
        listing = aurum("emit", LLAVA, "-f", "deepspeed", "--set", "plan.sharding=zero2")
        for file in document["files"]:
            self.assertIn(f"==> {file['name']} <==\n{file['text']}", listing.stdout)
        self.assertIn("W1952", listing.stderr)

    def test_o_must_not_be_a_file(self):
        taken = self.folder / "file"
        taken.write_text("mine")
        ran = aurum("emit", LLAVA, "-f", "deepspeed", "--set", "plan.sharding=zero2", "-o", str(taken))
        self.assertEqual(ran.returncode, 3)
        self.assertIn("E0204", ran.stderr)
        self.assertEqual(taken.read_text(), "mine")


if __name__ == "__main__":
    unittest.main()
