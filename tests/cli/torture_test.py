"""A sweep under torture, from outside: killed at random moments, out of disk, two at once, on what is damaged, read-only or foreign.

  torture_test.py AURUM

What must hold: nothing that was stored is lost, nothing is half, nothing of another's is overwritten, every refusal says what is wrong,
and the database in the end has the bytes of one that nothing disturbed. Runs from the root of the source tree; under a minute, or longer
with AURUM_TORTURE_SECONDS for a busy machine.
"""

import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

AURUM = sys.argv.pop(1)
SCENARIO = "scenarios/golden-sweep.json"
KILLS = 100
# For the kills; a machine that is too slow for all of them within that says how many there were.
SECONDS = float(os.environ.get("AURUM_TORTURE_SECONDS", "40"))


def words(output, points, *more):
    """A study of four models and clusters, one of which does not exist, so that a quarter of the points fails, times `points`."""
    return [AURUM, "sweep", SCENARIO, "--vary", "model=llava-1.6-7b,nonsense", "--vary", "cluster=8xa100-hgx,8xh100-hgx",
            "--vary", f"what_if.flops_gflop_per_token=1:{points // 4}:1", "--vary", "what_if.comm_bw_gb_per_s=50",
            "--vary", "what_if.align_ratio=0.5", "-o", str(output), "-j", "2", "--no-progress"]


def run(command, **options):
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, **options)


def stored(path):
    """How many points another program sees in the database, which it opens to read; 0 while there is none."""
    if not path.exists() or path.stat().st_size == 0:
        return 0
    for _ in range(50):
        try:
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
                return database.execute("SELECT COUNT(*) FROM points").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return 0
            time.sleep(0.01)  # between two steps of whoever opens or closes it
    raise AssertionError(f"{path} cannot be read")


def whole(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
        problem = database.execute("PRAGMA integrity_check").fetchone()[0]
        count, ids = database.execute("SELECT COUNT(*), COUNT(DISTINCT id) FROM points").fetchone()
    return problem == "ok" and count == ids


def remains(path):
    return sorted(p.name for p in path.parent.iterdir() if p.name.startswith(path.name) and p != path)


class Torture(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def undisturbed(self, name, points):
        path = self.folder / name
        start = time.monotonic()
        ran = run(words(path, points))
        self.assertEqual(ran.returncode, 6, ran.stderr)  # half of the points fail, and are stored
        self.assertEqual(stored(path), points // 4 * 4)
        self.assertEqual(remains(path), [])
        return path.read_bytes(), time.monotonic() - start

    def refused(self, path, code, text, points=40, status=3):
        """The command refuses with this diagnostic, and the file is as it was."""
        before = path.read_bytes() if path.is_file() else None
        ran = run(words(path, points))
        self.assertEqual(ran.returncode, status, ran.stderr)
        self.assertIn(f"error[{code}]", ran.stderr)
        self.assertIn(text, ran.stderr)
        self.assertIn("help:", ran.stderr)
        if before is not None:
            self.assertEqual(path.read_bytes(), before)

    def test_killed_a_hundred_times(self):
        _, elapsed = self.undisturbed("probe.db", 400)
        points = int(min(4000, max(400, 400 * 0.6 / elapsed)))
        expected, duration = self.undisturbed("whole.db", points)
        path = self.folder / "run.db"
        random.seed(8)
        killed = completed = most = 0
        end = time.monotonic() + SECONDS
        while killed < KILLS and time.monotonic() < end:
            before = stored(path)
            child = subprocess.Popen(words(path, points), stderr=subprocess.PIPE, text=True)
            time.sleep(random.uniform(0, 0.7 * duration))
            seen = stored(path)
            child.send_signal(signal.SIGKILL)
            said = child.communicate()[1]
            if child.returncode == -signal.SIGKILL:
                killed += 1
                after = stored(path)
                self.assertGreaterEqual(seen, before)  # a run adds to what was there
                self.assertGreaterEqual(after, seen)  # and what another program saw stays
                most = max(most, after - before)
                if killed % 10 == 0 and after > 0:
                    self.assertTrue(whole(path))
                if after < points // 4 * 4:
                    continue
                # Killed while the final form was written: the next run writes it.
                ran = run(words(path, points))
                self.assertEqual(ran.returncode, 6, ran.stderr)
            else:
                self.assertEqual(child.returncode, 6, said)
            completed += 1
            self.assertTrue(path.read_bytes() == expected, "the bytes of an undisturbed run")
            self.assertEqual(remains(path), [])
            path.unlink()
        ran = run(words(path, points))
        self.assertEqual(ran.returncode, 6, ran.stderr)
        self.assertTrue(path.read_bytes() == expected)
        print(f"{killed} kills of runs of {duration:.2f} s over {points} points, {completed} completed between them, "
              f"at most {most} points stored by one that was killed", file=sys.stderr)
        self.assertGreater(most, 0, "no kill found a stored point")
        self.assertGreater(killed, 9, "too slow to be a torture")

    def test_interrupted_from_the_keyboard(self):
        expected, duration = self.undisturbed("whole.db", 2000)
        path = self.folder / "run.db"
        for _ in range(2):
            child = subprocess.Popen(words(path, 2000), stderr=subprocess.PIPE, text=True)
            time.sleep(0.3 * duration)
            child.send_signal(signal.SIGINT)
            said = child.communicate()[1]
            if child.returncode == 6:
                break  # it was faster
            self.assertEqual(child.returncode, 130, said)
            self.assertIn("the same command goes on from here", said)
            self.assertEqual(remains(path), [])
            self.assertTrue(whole(path))
        run(words(path, 2000))
        self.assertTrue(path.read_bytes() == expected)

    def test_two_sweeps_on_one_database(self):
        expected, duration = self.undisturbed("whole.db", 2000)
        path = self.folder / "run.db"
        first = subprocess.Popen(words(path, 2000), stderr=subprocess.PIPE, text=True)
        while not path.exists() and first.poll() is None:
            time.sleep(0.001)
        second = run(words(path, 2000))
        said = first.communicate()[1]
        self.assertEqual(first.returncode, 6, said)
        if second.returncode != 6:  # the first may have been done
            self.assertEqual(second.returncode, 3, second.stderr)
            self.assertIn("error[E0724]", second.stderr)
            self.assertIn("another sweep is writing", second.stderr)
        self.assertTrue(path.read_bytes() == expected)

    def test_no_room_on_the_disk(self):
        """A file system of its own, too small: as a user in a namespace of its own, or as root."""
        expected, _ = self.undisturbed("whole.db", 2000)
        disk = self.folder / "disk"
        disk.mkdir()
        path = disk / "run.db"
        small, large = len(expected) // 2 // 1024, len(expected) * 8 // 1024
        quoted = " ".join(f"'{word}'" for word in words(path, 2000))
        script = f"""
            mount -t tmpfs -o size={small}k none '{disk}' || exit 99
            {quoted}; echo "status $?"
            sqlite3_count() {{ '{sys.executable}' -c "import sqlite3; print('stored', sqlite3.connect('file:{path}?mode=ro', uri=True).execute('SELECT COUNT(*) FROM points').fetchone()[0])"; }}
            mount -o remount,size={large}k '{disk}'
            sqlite3_count
            {quoted}; echo "status $?"
            cp '{path}' '{self.folder}/done.db'
            mount -o remount,ro '{disk}'
            {quoted}; echo "status $?"
            umount '{disk}'
        """
        ran = run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script])
        if ran.returncode != 0 and os.geteuid() == 0:
            ran = run(["unshare", "--mount", "sh", "-c", script])
        if "status" not in ran.stdout:
            self.skipTest("no small file system can be mounted here: " + ran.stderr.strip())
        first, count, second, read_only = ran.stdout.split("\n")[:4]
        self.assertEqual(first, "status 3", ran.stderr)
        self.assertIn("error[E0726]", ran.stderr)
        self.assertIn("free some space and run the same command again", ran.stderr)
        self.assertGreater(int(count.split()[1]), 0, "what was committed before the disk was full stays")
        self.assertLess(int(count.split()[1]), 2000)
        self.assertEqual(second, "status 6", ran.stderr)
        self.assertIn(f"{count.split()[1]} were there already", ran.stderr)
        self.assertTrue((self.folder / "done.db").read_bytes() == expected)
        self.assertEqual(read_only, "status 3")
        self.assertIn("error[E0725]", ran.stderr)

    def test_a_quota_on_the_file(self):
        """A limit on the size of files, which is a signal where nobody asks for an error."""
        expected, _ = self.undisturbed("whole.db", 2000)
        path = self.folder / "run.db"
        limit = len(expected) // 2
        ran = run(words(path, 2000), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertIn("error[E0726]", ran.stderr)
        kept = stored(path)
        self.assertGreater(kept, 0)
        ran = run(words(path, 2000))
        self.assertIn(f"{kept} were there already", ran.stderr)
        self.assertTrue(path.read_bytes() == expected)

    def test_damage(self):
        expected, _ = self.undisturbed("whole.db", 40)
        path = self.folder / "run.db"
        random.seed(3)
        size = len(expected)

        def damaged(data, code, text):
            path.write_bytes(bytes(data))
            self.refused(path, code, text)

        for length in (1, 15, 16, 50, 100, 4095, 4096, size // 2, size - 4096, size - 1):
            damaged(expected[:length], "E0721", "atabase" if length < 16 else "damaged")
        for start in (0, 3, 10):  # of the text that every database begins with
            data = bytearray(expected)
            data[start] ^= 0x41
            damaged(data, "E0721", "not a database")
        damaged(bytes(size), "E0721", "not a database")
        damaged(b"once upon a time " * 600, "E0721", "not a database")
        for page in range(size // 4096):
            data = bytearray(expected)
            data[page * 4096 + (100 if page == 0 else 0)] = 0x7f  # no kind of page
            damaged(data, "E0721", "damaged")
            data = bytearray(expected)
            data[max(16, page * 4096):(page + 1) * 4096] = bytes((page + 1) * 4096 - max(16, page * 4096))
            damaged(data, "E0721", "damaged")
        # Bits flipped anywhere: in the header, in pages, in stored figures, in bytes that nothing uses. The seal misses one in 2^32.
        verdicts = {}
        for _ in range(60):
            data = bytearray(expected)
            for _ in range(8):
                data[random.randrange(size)] ^= 1 << random.randrange(8)
            path.write_bytes(bytes(data))
            ran = run(words(path, 40))
            self.assertEqual(ran.returncode, 3, ran.stderr)
            code = ran.stderr[ran.stderr.find("error[") + 6:][:5]
            verdicts[code] = verdicts.get(code, 0) + 1
            self.assertEqual(path.read_bytes(), bytes(data), "never overwritten")
        print("bytes flipped:", verdicts, file=sys.stderr)
        self.assertGreater(verdicts.get("E0721", 0), 0)

    def test_the_database_of_someone_else(self):
        path = self.folder / "run.db"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE people(name TEXT)")
            database.commit()
        self.refused(path, "E0722", "of something else")
        path.unlink()
        run(words(path, 80))
        self.refused(path, "E0723", "another study")  # 40 points, not 80
        folder = self.folder / "folder.db"
        folder.mkdir()
        self.refused(folder, "E0720", "is a directory")
        self.refused(self.folder / "none" / "run.db", "E0720", "folder exists")

    def test_what_is_read_only(self):
        path = self.folder / "run.db"
        run(words(path, 80))
        path.chmod(0o444)
        self.refused(path, "E0725", "read-only", points=80)
        if os.geteuid() == 0:
            return  # root writes into any folder
        path.chmod(0o644)
        new = self.folder / "closed" / "run.db"
        new.parent.mkdir(mode=0o555)
        self.refused(new, "E0720", "may write in it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
