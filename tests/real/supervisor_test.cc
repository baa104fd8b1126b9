#include "real/supervisor.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "real/job_folder.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

namespace fs = std::filesystem;

// A folder for jobs of its own, so that what is left behind shows.
class Place {
 public:
  Place() {
    std::string path = fs::temp_directory_path() / "aurum-test-XXXXXX";
    path_ = mkdtemp(path.data());
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~Place() {
    unsetenv("TMPDIR");
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  bool Empty() const { return fs::is_empty(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Job JobThat(const std::string& misbehaves, int rank = 1) {
  Job job;
  job.what = "execute";
  job.scenario = Json::Object();
  job.ranks = 2;
  job.steps = {0, 3, 0};
  job.options = Json::Object();
  job.options.Set("misbehaves", misbehaves);
  job.options.Set("rank", rank);
  return job;
}

Launch Workers() {
  Launch launch;
  launch.command = {AURUM_TEST_WORKER, "{folder}", "{rank}"};
  launch.start_timeout_s = 60;
  launch.silence_timeout_s = 60;
  return launch;
}

bool Gone(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || text[end + 2] == 'Z' || text[end + 2] == 'X';
}

// The process ids of "2 ranks, processes 12, 13".
std::vector<int> PidsIn(const std::string& line) {
  std::vector<int> pids;
  const std::size_t at = line.find("processes ");
  if (at == std::string::npos) return pids;
  std::istringstream words(line.substr(at + 10));
  for (std::string word; std::getline(words, word, ',');) pids.push_back(std::stoi(word));
  return pids;
}

struct Failed {
  Diagnostic diagnostic;
  ExitCode exit_code = ExitCode::kOk;
  std::vector<int> pids;
};
Failed Failing(const Job& job, const Launch& launch,
               const std::function<bool()>& interrupted = nullptr) {
  Failed failed;
  try {
    RunJob(
        job, launch,
        [&](const std::string& line) {
          const std::vector<int> pids = PidsIn(line);
          if (!pids.empty()) failed.pids = pids;
        },
        interrupted);
  } catch (const InputError& error) {
    failed.diagnostic = error.diagnostic();
    failed.exit_code = error.exit_code();
  }
  return failed;
}
bool Holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a job runs, its ranks hand back what they wrote, and nothing stays behind") {
  const Place place;
  std::vector<std::string> lines;
  const std::vector<RankRun> runs = RunJob(
      JobThat(""), Workers(), [&](const std::string& line) { lines.push_back(line); }, nullptr);
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].facts.rank == 1);
  CHECK(runs[1].steps.at(0).seconds == 1.25);
  CHECK(runs[1].steps.at(0).disturbed);
  CHECK_FALSE(runs[0].steps.at(0).disturbed);
  CHECK(runs[0].timed.at(0).at(1).duration_s == 0.5);
  CHECK(runs[0].checks.at(0).name == "sums");
  REQUIRE(lines.size() == 2);
  const std::vector<int> pids = PidsIn(lines[0]);
  REQUIRE(pids.size() == 2);
  CHECK(lines[1] == "whole steps done (3)");
  CHECK((Gone(pids[0]) && Gone(pids[1])));
  CHECK(place.Empty());
}

TEST_CASE("a rank that is killed is named, with the op where it stood and who waited for it") {
  const Place place;
  const Failed failed = Failing(JobThat("kill"), Workers());
  CHECK(failed.diagnostic.code == 910);
  CHECK(failed.exit_code == ExitCode::kPartial);
  CHECK(Holds(failed.diagnostic.message,
              "rank 1 was killed by signal 9 in step 2 at 'forward of backbone, micro-batch 0'"));
  CHECK(Holds(failed.diagnostic.message, "; its last line: about to misbehave"));
  REQUIRE(failed.pids.size() == 2);
  CHECK((Gone(failed.pids[0]) && Gone(failed.pids[1])));
  CHECK(place.Empty());
}

TEST_CASE("a rank that exits early is named by its code") {
  const Place place;
  const Failed failed = Failing(JobThat("exit", 0), Workers());
  CHECK(failed.diagnostic.code == 910);
  CHECK(Holds(failed.diagnostic.message, "rank 0 exited with code 3 before its time in step 2"));
  CHECK(place.Empty());
}

TEST_CASE("a stopped rank hangs: it is told apart from the one that waits for it") {
  const Place place;
  Launch launch = Workers();
  launch.silence_timeout_s = 1;
  const Failed failed = Failing(JobThat("stop"), launch);
  CHECK(failed.diagnostic.code == 911);
  CHECK(Holds(failed.diagnostic.message,
              "rank 1 hangs (its process is stopped) in step 2 at 'forward of backbone, "
              "micro-batch 0' while rank 0 waited for it at 'gradient reduction of backbone'"));
  REQUIRE(failed.pids.size() == 2);
  CHECK((Gone(failed.pids[0]) && Gone(failed.pids[1])));
  CHECK(place.Empty());
}

TEST_CASE("a rank that runs in a circle hangs, too") {
  const Place place;
  Launch launch = Workers();
  launch.silence_timeout_s = 1;
  const Failed failed = Failing(JobThat("loop", 0), launch);
  CHECK(failed.diagnostic.code == 911);
  CHECK(Holds(failed.diagnostic.message, "rank 0 hangs in step 2 at 'forward of backbone"));
  CHECK(Holds(failed.diagnostic.message, "rank 1 waited for it at 'gradient reduction"));
  CHECK(place.Empty());
}

TEST_CASE("what a rank throws is what the job throws") {
  const Place place;
  const Failed failed = Failing(JobThat("throw"), Workers());
  CHECK(failed.diagnostic.code == 932);
  CHECK(failed.exit_code == ExitCode::kInfeasible);
  CHECK(failed.diagnostic.message == "no such kernel");
  CHECK(failed.diagnostic.help == "another");
  CHECK(place.Empty());
}

TEST_CASE("a rank that never starts is named, with the last line it wrote") {
  const Place place;
  Launch launch = Workers();
  launch.start_timeout_s = 1;
  const Failed late = Failing(JobThat("late"), launch);
  CHECK(late.diagnostic.code == 912);
  CHECK(late.diagnostic.message ==
        "rank 1 did not start: it did not begin its first step within 1 s: still looking for a "
        "device");
  launch.command = {"/nonexistent/worker", "{folder}"};
  const Failed absent = Failing(JobThat(""), launch);
  CHECK(absent.diagnostic.code == 912);
  CHECK(Holds(absent.diagnostic.message, "cannot start '/nonexistent/worker': No such file"));
  launch.per_rank = false;  // one launcher for all
  const Failed launcher = Failing(JobThat(""), launch);
  CHECK(launcher.diagnostic.code == 912);
  CHECK(
      Holds(launcher.diagnostic.message, "rank 0 did not start: its launcher ended: cannot start"));
  CHECK(place.Empty());
}

TEST_CASE("an interrupted job leaves nothing") {
  const Place place;
  std::vector<int> pids;
  int asked = 0;
  const Job job = JobThat("loop");
  const Failed failed = Failing(job, Workers(), [&] { return ++asked > 20; });
  CHECK(failed.diagnostic.code == 913);
  CHECK(failed.exit_code == ExitCode::kInterrupted);
  for (const int pid : failed.pids) CHECK(Gone(pid));
  CHECK(place.Empty());
}

TEST_CASE("when the supervisor is killed, its ranks end and the folder goes") {
  const Place place;
  int told[2];
  REQUIRE(pipe(told) == 0);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    try {
      RunJob(
          JobThat("loop"), Workers(),
          [&](const std::string& line) {
            const std::string text = line + "\n";
            if (write(told[1], text.c_str(), text.size()) < 0) std::_Exit(2);
          },
          nullptr);
    } catch (const InputError&) {
    }
    std::_Exit(0);
  }
  close(told[1]);
  std::string line;
  for (char letter = 0; read(told[0], &letter, 1) == 1 && letter != '\n';) line += letter;
  close(told[0]);
  const std::vector<int> pids = PidsIn(line);
  REQUIRE(pids.size() == 2);
  CHECK_FALSE(Gone(pids[0]));
  CHECK_FALSE(Gone(pids[1]));
  CHECK_FALSE(place.Empty());
  kill(supervisor, SIGKILL);
  waitpid(supervisor, nullptr, 0);
  // Nothing tells this process when they are gone; a minute is for a machine that is very busy.
  for (int i = 0; i < 6000 && !(Gone(pids[0]) && Gone(pids[1]) && place.Empty()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(Gone(pids[0]));
  CHECK(Gone(pids[1]));
  CHECK(place.Empty());
}

TEST_CASE("when the guardian is killed, its ranks end, too") {
  const Place place;
  std::vector<int> pids;
  int guardian = 0;
  const auto kill_it = [&] {
    if (pids.empty() || guardian != 0) return false;
    std::ifstream in("/proc/" + std::to_string(pids[0]) + "/stat");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    char state = ' ';
    fields >> state >> guardian;
    kill(guardian, SIGKILL);
    return false;
  };
  Diagnostic diagnostic;
  try {
    RunJob(
        JobThat("loop"), Workers(),
        [&](const std::string& line) {
          if (pids.empty()) pids = PidsIn(line);
        },
        kill_it);
  } catch (const InputError& error) {
    diagnostic = error.diagnostic();
  }
  CHECK((diagnostic.code == 910 || diagnostic.code == 912));
  REQUIRE(pids.size() == 2);
  for (int i = 0; i < 6000 && !(Gone(pids[0]) && Gone(pids[1])); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK((Gone(pids[0]) && Gone(pids[1])));
  CHECK(place.Empty());
}

TEST_CASE("a job reads back as it was written") {
  Job job = JobThat("x");
  job.seed = 0xffffffffffffffffULL;
  job.lone_rank = 3;
  job.data_root = "root";
  const Job read = ReadJob(ParseJson(WriteJob(job).Dump(), "job"));
  CHECK(WriteJob(read).Dump() == WriteJob(job).Dump());
  CHECK(read.seed == job.seed);
}

}  // namespace
}  // namespace aurum
