"""A sweep over several processes, from outside: MPI, GNU parallel, job arrays and one process write the same bytes, and
whatever is lost on the way is done again. Runs from the root of the source tree.

Arguments: the program, and mpirun ("" where the program was built without MPI).
"""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

MPIRUN = sys.argv.pop(2)
AURUM = str(pathlib.Path(sys.argv.pop(1)).absolute())
SCENARIO = "scenarios/llava-1.6-7b-finetune-8xa100.json"
CLUSTER = pathlib.Path("docs/cluster")
# 144 points, of which some fail (an unknown model) and some are infeasible (three does not divide).
VARY = ("--vary", "what_if.comm_bw_gb_per_s=10:40:*2", "--vary", "plan.micro_batch_size=1,2,4", "--vary",
        "model=llava-1.6-7b,nonsense", "--vary", "plan.backbone.tp=1,2,3,8", "--vary", "cluster=8xa100-hgx,8xh100-hgx")
POINTS = 144
# The same without those that fail, which the scripts' dry run refuses.
FINE = tuple("model=llava-1.6-7b,llava-1.5-7b" if word.startswith("model=") else word for word in VARY)
# Every rank of every simulation on its own: points that take long enough to be interrupted.
SLOW = ("--vary", "what_if.comm_bw_gb_per_s=10:100:3", "--vary", "plan.micro_batch_size=1,2,4", "--fold", "off", "--level", "flow")

# Open MPI as root, on one machine, with more ranks than cores, without the network.
ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "AURUM": AURUM, "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_btl": "self,vader", "OMPI_MCA_plm": "isolated", "OMPI_MCA_oob_tcp_if_include": "lo"}


def run(*words, env=None, timeout=300):
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, env={**ENVIRONMENT, **(env or {})})


def aurum(*words, **options):
    return run(AURUM, *words, **options)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def bytes(self, name):
        return (self.folder / name).read_bytes()

    known = {}  # the databases of one process, by axes

    def one(self, *vary):
        """The database of one process."""
        vary = vary or VARY
        if vary not in self.known:
            ran = aurum("sweep", SCENARIO, *vary, "-o", self.path("one.db"))
            self.assertIn(ran.returncode, (0, 6), ran.stderr)
            self.known[vary] = self.bytes("one.db")
        return self.known[vary]

    def refused(self, code, exit_code, *words, env=None):
        ran = aurum(*words, env=env)
        self.assertEqual(ran.returncode, exit_code, ran.stderr)
        self.assertIn(f"error[{code}]", ran.stderr)
        self.assertIn("help: ", ran.stderr)
        return ran.stderr


class Shards(Files):
    def shards(self, count, *skip):
        paths = []
        for i in range(1, count + 1):
            if i not in skip:
                paths.append(self.path(f"shard-{i}.db"))
                ran = aurum("sweep", SCENARIO, *VARY, "--shard", f"{i}/{count}", "-o", paths[-1])
                self.assertIn(ran.returncode, (0, 6), ran.stderr)
                self.assertIn(f"shard {i}/{count}: ", ran.stderr)
        return paths

    def test_shards_and_one_process(self):
        one = self.one()
        paths = self.shards(4)
        ran = aurum("merge", *reversed(paths), "-o", self.path("all.db"), "--json")
        self.assertEqual(ran.returncode, 6, ran.stderr)  # points failed, as in one process
        self.assertEqual(self.bytes("all.db"), one)
        told = json.loads(ran.stdout)
        self.assertEqual((told["schema"], told["points"], told["merged"]), ("aurum.merge/1", POINTS, POINTS))
        self.assertEqual([each["shard"] for each in told["inputs"]], ["4/4", "3/4", "2/4", "1/4"])
        self.assertEqual(told["ok"] + told["infeasible"] + told["failed"], POINTS)

    def test_a_missing_shard_is_named(self):
        one = self.one()
        paths = self.shards(3, 2)
        told = self.refused("E0848", 6, "merge", *paths, "-o", self.path("all.db"))
        self.assertIn("shard 2/3 is not among them", told)
        self.assertIn("--shard 2/3", told)
        self.assertFalse(pathlib.Path(self.path("all.db")).exists())
        ran = aurum("merge", *paths, "-o", self.path("all.db"), "--partial")
        self.assertEqual(ran.returncode, 6, ran.stderr)
        self.assertIn("are missing", ran.stderr)
        ran = aurum("report", self.path("all.db"), "-o", self.path("all.csv"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("W1750", ran.stderr)
        ran = aurum("sweep", SCENARIO, *VARY, "-o", self.path("all.db"))
        self.assertIn("were there already", ran.stderr)
        self.assertEqual(self.bytes("all.db"), one)

    def test_what_cannot_be_merged(self):
        paths = self.shards(2)
        other = self.path("other.db")
        aurum("sweep", SCENARIO, *VARY, "--set", "workload.global_batch_size=256", "--shard", "1/2", "-o", other)
        self.assertIn("/workload/global_batch_size", self.refused("E0847", 3, "merge", paths[1], other, "-o", self.path("n.db")))
        self.refused("E0205", 2, "merge", *paths, "-o", paths[0])
        self.refused("E0850", 2, "merge", paths[0], paths[0], "-o", self.path("n.db"))
        self.refused("E0708", 2, "merge", *paths)
        self.refused("E0708", 2, "merge", *paths, "-o", "-")
        self.refused("E0709", 2, "merge", *paths, "-o", self.path("n.db"), "--format", "csv")
        self.refused("E0723", 3, "sweep", SCENARIO, *VARY, "--shard", "2/2", "-o", paths[0])
        self.refused("E0723", 3, "sweep", SCENARIO, *VARY, "-o", paths[0])
        self.refused("E0846", 2, "sweep", SCENARIO, *VARY, "--shard", "3/2", "-o", self.path("n.db"))
        with sqlite3.connect(paths[0]) as database:
            database.execute("UPDATE points SET step_time_s = step_time_s * 2")
        self.refused("E0721", 3, "merge", *paths, "-o", self.path("n.db"))

    def test_a_shard_is_printed_too_and_counted_before(self):
        ran = aurum("sweep", SCENARIO, *VARY, "--shard", "2/4", "--format", "jsonl", "-q")
        points = [json.loads(line)["point"] for line in ran.stdout.splitlines()]
        self.assertEqual(len(points), POINTS // 4)
        self.assertEqual(points, sorted(set(points)))
        ran = aurum("sweep", SCENARIO, *FINE, "--shard", "2/4", "--dry-run")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"shard 2/4 has {POINTS // 4}", ran.stderr)

    def test_more_shards_than_points(self):
        for shard in ("1/3", "2/3", "3/3"):
            ran = aurum("sweep", SCENARIO, "--vary", "plan.micro_batch_size=1,2", "--shard", shard, "-o", self.path(f"{shard[0]}.db"))
            self.assertEqual(ran.returncode, 0, ran.stderr)
        one = self.one("--vary", "plan.micro_batch_size=1,2")
        ran = aurum("merge", *(self.path(f"{i}.db") for i in (1, 2, 3)), "-o", self.path("all.db"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.bytes("all.db"), one)


class Scripts(Files):
    """docs/cluster, as it stands there."""

    def test_gnu_parallel(self):
        if shutil.which("parallel") is None:
            self.skipTest("GNU parallel is not installed")
        one = self.one(*FINE)
        words = (str(CLUSTER / "parallel-sweep.sh"), SCENARIO, "4", self.path("all.db"), *FINE)
        ran = run(*words)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.bytes("all.db"), one)
        self.assertEqual(len(list((self.folder / "all.db.parts").glob("shard-*.db"))), 4)
        ran = run(*words)
        self.assertIn("were there already", ran.stderr)
        self.assertEqual(self.bytes("all.db"), one)

    def test_another_number_of_shards_is_noticed(self):
        if shutil.which("parallel") is None:
            self.skipTest("GNU parallel is not installed")
        words = [str(CLUSTER / "parallel-sweep.sh"), SCENARIO, "2", self.path("all.db"), "--vary", "plan.micro_batch_size=1,2"]
        self.assertEqual(run(*words).returncode, 0)
        words[2] = "3"
        ran = run(*words)
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertIn("holds shards of a run with 2 shards, not 3", ran.stderr)
        self.assertEqual(len(list((self.folder / "all.db.parts").glob("shard-*.db"))), 2)
        ran = run(str(CLUSTER / "slurm-submit.sh"), *words[1:], env=self.sbatch())
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertFalse((self.folder / "submitted").exists())

    def test_a_bad_point_of_a_list_stops_no_script(self):
        points = self.folder / "points.csv"
        points.write_text("plan.micro_batch_size,model\n1,llava-1.6-7b\n2,nonsense\n2,llava-1.6-7b\n")
        run(AURUM, "sweep", SCENARIO, "--points", str(points), "-o", self.path("one.db"))
        ran = run(str(CLUSTER / "slurm-submit.sh"), SCENARIO, "2", self.path("all.db"), "--points", str(points), env=self.sbatch())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("1 of them will fail", ran.stderr)
        self.assertEqual(self.bytes("all.db"), self.bytes("one.db"))

    def sbatch(self, lost=()):
        """A scheduler as far as the scripts can tell: runs what is submitted at once, and tells each task its number. Tasks
        in `lost` are killed before they have begun."""
        program = self.folder / "bin" / "sbatch"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"""#!/usr/bin/env python3
import os, re, subprocess, sys
folder = {str(self.folder)!r}
lost = {tuple(lost)!r}
options = [word for word in sys.argv[1:] if word.startswith("--")]
command = sys.argv[1 + next(i for i, word in enumerate(sys.argv[1:]) if not word.startswith("--")):]
with open(folder + "/submitted", "a") as log:
    log.write(" ".join(sys.argv[1:]) + chr(10))
assert "--parsable" in options
tasks = [None]
for option in options:
    found = re.fullmatch("--array=([0-9]+)(?:-([0-9]+))?", option)
    if found:
        tasks = list(range(int(found[1]), int(found[2] or found[1]) + 1))
for task in tasks:
    if task in lost:
        continue
    told = dict(os.environ, SLURM_CPUS_PER_TASK="1")
    if task is not None:
        told.update(SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_TASK_COUNT=str(len(tasks)))
    # As Slurm: the job is a copy of the script, so nothing is beside it.
    copy = folder + "/slurm_script"
    open(copy, "wb").write(open(command[0], "rb").read())
    with open(f"{{folder}}/slurm-{{task}}.out", "w") as out:
        subprocess.run(["bash", copy, *command[1:]], env=told, stdout=out, stderr=out)
print("1234;somewhere")
""")
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    def test_slurm_array_with_a_merge_behind_it(self):
        one = self.one(*FINE)
        ran = run(str(CLUSTER / "slurm-submit.sh"), SCENARIO, "4", self.path("all.db"), *FINE, env=self.sbatch())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        submitted = (self.folder / "submitted").read_text().splitlines()
        self.assertIn("--array=1-4", submitted[0])
        self.assertIn("--dependency=afterany:1234 ", submitted[1])
        self.assertEqual(self.bytes("all.db"), one)

    def test_a_lost_task_is_named_and_submitted_again(self):
        one = self.one(*FINE)
        environment = self.sbatch(lost=(3,))
        run(str(CLUSTER / "slurm-submit.sh"), SCENARIO, "4", self.path("all.db"), *FINE, env=environment)
        self.assertIn("shard 3/4 is not among them", (self.folder / "slurm-None.out").read_text())
        self.assertFalse((self.folder / "all.db").exists())
        environment = {**self.sbatch(), "SHARDS": "4"}
        ran = run("sbatch", "--parsable", "--array=3", str(CLUSTER / "slurm-array.sh"), SCENARIO, self.path("all.db.parts"), *FINE,
                  env=environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        run("sbatch", "--parsable", str(CLUSTER / "slurm-merge.sh"), self.path("all.db.parts"), self.path("all.db"), env=environment)
        self.assertEqual(self.bytes("all.db"), one)

    def test_what_is_wrong_is_said_before_anything_is_submitted(self):
        ran = run(str(CLUSTER / "slurm-submit.sh"), SCENARIO, "4", self.path("all.db"), "--vary", "plan.bogus=1", env=self.sbatch())
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertIn("error[E0101]", ran.stderr)
        self.assertFalse((self.folder / "submitted").exists())

    def test_mpi(self):
        if not MPIRUN:
            self.skipTest("built without MPI")
        one = self.one()
        ran = run(str(CLUSTER / "mpi-sweep.sh"), SCENARIO, self.path("all.db"), *VARY, env={"MPIRUN_OPTIONS": "-n 2"})
        self.assertEqual(ran.returncode, 6, ran.stderr)  # points failed, though mpirun itself returns 0
        self.assertIn(f"{POINTS} were there already", ran.stderr)
        self.assertEqual(self.bytes("all.db"), one)


class Without(Files):
    def test_a_launcher_and_no_mpi(self):
        program = self.folder / "aurum"
        shutil.copy(AURUM, program)
        ran = run(str(program), "sweep", SCENARIO, *VARY, "-o", self.path("n.db"), env={"OMPI_COMM_WORLD_SIZE": "3"})
        self.assertEqual(ran.returncode, 7, ran.stderr)
        self.assertIn("error[E0851]", ran.stderr)
        self.assertIn("one of 3 processes", ran.stderr)
        self.assertIn("--shard", ran.stderr)
        ran = run(str(program), "sweep", SCENARIO, *VARY, "-o", self.path("n.db"), "--mpi", "off", env={"OMPI_COMM_WORLD_SIZE": "3"})
        self.assertEqual(ran.returncode, 6, ran.stderr)


# A rank that is stopped in the middle of Open MPI's shared memory can hold its neighbour up for good; over
# sockets it cannot, as between machines.
SOCKETS = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}


@unittest.skipUnless(MPIRUN, "built without MPI")
class Mpi(Files):
    def start(self, ranks, *words, options=(), program=AURUM, **more):
        return subprocess.Popen([MPIRUN, *options, "-n", str(ranks), program, "sweep", SCENARIO, *words, "-o", self.path("mpi.db")],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **more})

    def finish(self, child):
        self.addCleanup(child.kill)
        out, told = child.communicate(timeout=120)
        return child.returncode, out, told

    def stored(self):
        try:
            database = sqlite3.connect(f"file:{self.path('mpi.db')}?mode=ro", uri=True)
            try:
                return database.execute("SELECT count(*) FROM points").fetchone()[0]
            finally:
                database.close()
        except sqlite3.Error:
            return 0

    def ranks(self, child):
        """Process ids by rank, once points are stored."""
        deadline = time.time() + 120
        while self.stored() < 20:
            self.assertLess(time.time(), deadline)
            self.assertIsNone(child.poll(), "the run ended before it could be disturbed")
            time.sleep(0.02)
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) != child.pid:
                    continue
                words = (folder / "environ").read_bytes().split(b"\0")
            except (OSError, ValueError):
                continue
            for word in words:
                if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(word.split(b"=")[1])] = int(folder.name)
        return found

    def goes_on(self):
        """The same command, after the run was lost: what was stored is kept, and the end is as if nothing had been."""
        self.assertGreaterEqual(self.stored(), 20)
        code, _, told = self.finish(self.start(2, *SLOW))
        self.assertEqual(code, 0, told)
        self.assertIn("were there already", told)
        self.assertEqual(self.bytes("mpi.db"), self.one(*SLOW))

    def test_any_number_of_ranks(self):
        one = self.one()
        for ranks in (1, 3):  # two: everywhere below
            code, out, told = self.finish(self.start(ranks, *VARY))
            self.assertEqual((code, out), (6, ""), told)
            self.assertEqual(self.bytes("mpi.db"), one)
            self.assertIn(f"{POINTS} of {POINTS} points", told)
            self.assertEqual(told.count("evaluated in"), 1, "one rank alone speaks")
            os.remove(self.path("mpi.db"))

    def test_a_shard_by_mpi_and_another_without(self):
        one = self.one()
        self.assertEqual(self.finish(self.start(2, *VARY, "--shard", "1/2"))[0], 6)
        aurum("sweep", SCENARIO, *VARY, "--shard", "2/2", "-o", self.path("two.db"))
        ran = aurum("merge", self.path("mpi.db"), self.path("two.db"), "-o", self.path("all.db"))
        self.assertEqual(ran.returncode, 6, ran.stderr)
        self.assertEqual(self.bytes("all.db"), one)

    def test_the_same_command_finds_everything_there(self):
        one = self.one()
        self.finish(self.start(2, *VARY))
        code, _, told = self.finish(self.start(2, *VARY))
        self.assertEqual(code, 6)
        self.assertIn(f"{POINTS} were there already", told)
        self.assertEqual(self.bytes("mpi.db"), one)

    def test_asked_for_without_a_launcher(self):
        one = self.one()
        ran = aurum("sweep", SCENARIO, *VARY, "-o", self.path("mpi.db"), "--mpi", "on")
        self.assertEqual(ran.returncode, 6, ran.stderr)
        self.assertEqual(self.bytes("mpi.db"), one)

    def test_a_launcher_of_another_mpi(self):
        told = self.refused("E0852", 2, "sweep", SCENARIO, *VARY, "-o", self.path("n.db"), env={"PMI_SIZE": "4", "PMI_RANK": "1"})
        self.assertIn("4 processes", told)

    def test_bad_input_is_said_once(self):
        child = self.start(3, "--vary", "plan.bogus=1", "--dry-run")
        code, _, told = self.finish(child)
        self.assertEqual(code, 3, told)
        self.assertEqual(told.count("error[E0101]"), 1)
        (self.folder / "mpi.db").write_text("not a database, but long enough to look like one")
        code, _, told = self.finish(self.start(3, *VARY))
        self.assertEqual(code, 3, told)
        self.assertEqual(told.count("error[E0721]"), 1)

    def test_a_rank_that_reads_another_study_takes_no_part(self):
        one = self.one()
        wrapper = self.folder / "wrapper.sh"
        wrapper.write_text(f"#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && set -- \"$@\" --set workload.global_batch_size=256\n"
                           f"exec {AURUM} \"$@\"\n")
        wrapper.chmod(0o755)
        ran = run(MPIRUN, "-n", "2", str(wrapper), "sweep", SCENARIO, *VARY, "-o", self.path("mpi.db"))
        self.assertEqual(ran.returncode, 6, ran.stderr)
        self.assertIn("rank 1", ran.stderr)
        self.assertIn("takes no part", ran.stderr)
        self.assertEqual(self.bytes("mpi.db"), one)

    def test_a_killed_worker_is_done_without(self):
        one = self.one(*SLOW)
        child = self.start(3, *SLOW, "--worker-timeout", "1", "-j", "1", options=("--enable-recovery",), **SOCKETS)
        os.kill(self.ranks(child)[2], signal.SIGKILL)
        code, _, told = self.finish(child)
        self.assertEqual(code, 0, told)
        self.assertIn("mpi: rank 2 on ", told)
        self.assertIn("points are done again", told)
        self.assertEqual(self.bytes("mpi.db"), one)

    def test_a_worker_that_hangs_is_done_without(self):
        one = self.one(*SLOW)
        child = self.start(2, *SLOW, "--worker-timeout", "1", "-j", "1", **SOCKETS)
        os.kill(self.ranks(child)[1], signal.SIGSTOP)
        code, _, told = self.finish(child)
        self.assertEqual(code, 0, told)
        self.assertIn("points are done again", told)
        self.assertEqual(self.bytes("mpi.db"), one)

    def test_where_mpi_ends_all_the_same_command_goes_on(self):
        for rank in (1, 0):
            child = self.start(2, *SLOW, "--worker-timeout", "1", "-j", "1")
            os.kill(self.ranks(child)[rank], signal.SIGKILL)
            code, _, told = self.finish(child)
            self.assertNotEqual(code, 0, told)
            self.goes_on()
            os.remove(self.path("mpi.db"))

    def test_a_worker_whose_manager_is_gone_says_so_and_ends(self):
        # Open MPI 4.1 returns 0 with --enable-recovery whatever its processes returned, so the worker's own code is kept.
        wrapper = self.folder / "wrapper.sh"
        wrapper.write_text(f"#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] && exec {AURUM} \"$@\"\n"
                           f"{AURUM} \"$@\"\necho $? > {self.path('code')}\n")
        wrapper.chmod(0o755)
        child = self.start(2, *SLOW, "--worker-timeout", "1", "-j", "1", options=("--enable-recovery",), program=str(wrapper))
        os.kill(self.ranks(child)[0], signal.SIGKILL)
        _, _, told = self.finish(child)
        self.assertIn("rank 0 has fallen silent; the same command goes on", told)
        self.assertEqual(self.bytes("code"), b"130\n")
        self.goes_on()

    def test_interrupted(self):
        child = self.start(2, *SLOW)
        self.ranks(child)
        child.send_signal(signal.SIGINT)
        self.assertNotEqual(self.finish(child)[0], 0)
        self.goes_on()


if __name__ == "__main__":
    unittest.main()
