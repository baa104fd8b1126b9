#include "real/guardian.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace aurum {
namespace {

constexpr int kLookEveryMs = 10;
constexpr char kKill = 'k';

// A command with all that exec wants, made before the fork.
struct Prepared {
  std::vector<char*> argv, environment;
  const char* error_file;
  int rank;
  pid_t pid = -1;
};

// Parent of process `pid` by /proc/PID/stat; −1 where it is gone. The name in it may hold anything, so
// what follows the last ')' is read.
pid_t ParentOf(const char* pid) {
  char path[64], text[512];
  std::snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return -1;
  text[length] = '\0';
  const char* end = std::strrchr(text, ')');
  int parent = -1;
  char state = ' ';
  return end != nullptr && std::sscanf(end + 1, " %c %d", &state, &parent) == 2 ? parent : -1;
}

void SignalChildren() {
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(processes)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (ParentOf(entry->d_name) == self) kill(std::atoi(entry->d_name), SIGKILL);
  }
  closedir(processes);
}

// Each round's orphans are the next round's children.
void KillDescendants() {
  for (;;) {
    SignalChildren();
    pid_t ended = 0;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (ended < 0 && errno == ECHILD) return;
    usleep(1000);
  }
}

[[noreturn]] void Exec(Prepared* process, pid_t guardian) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guardian) _exit(127);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  const int out = open(process->error_file, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (out >= 0) {
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
  }
  if (null > STDERR_FILENO) close(null);
  if (out > STDERR_FILENO) close(out);
  execvpe(process->argv[0], process->argv.data(), process->environment.data());
  std::fprintf(stderr, "cannot start '%s': %s\n", process->argv[0], std::strerror(errno));
  std::fflush(stderr);
  _exit(127);
}

[[noreturn]] void Guard(std::vector<Prepared>* processes, const ProgressPage& page, int pipe,
                        const std::string& folder) {
  setpgid(0, 0);  // a terminal's Ctrl-C is the caller's alone
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int sig : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGQUIT}) signal(sig, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const pid_t self = getpid();
  page.SetGuardian(self);
  for (Prepared& process : *processes) {
    process.pid = fork();
    if (process.pid == 0) Exec(&process, self);
    if (process.pid < 0 && process.rank >= 0) page.Ended(process.rank, 127 << 8);
  }
  for (;;) {
    for (;;) {
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended < 0 && errno == ECHILD) _exit(0);
      if (ended <= 0) break;
      for (const Prepared& process : *processes) {
        if (process.pid == ended && process.rank >= 0) page.Ended(process.rank, status);
      }
    }
    pollfd ready{pipe, POLLIN, 0};
    if (poll(&ready, 1, kLookEveryMs) <= 0) continue;
    char word = ' ';
    const ssize_t got = read(pipe, &word, 1);
    if (got < 0 && errno == EINTR) continue;
    KillDescendants();
    if (got <= 0) {  // the caller is gone, and nobody else will
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
    _exit(0);
  }
}

}  // namespace

Guardian::Guardian(const std::vector<GuardedProcess>& processes, const ProgressPage& page,
                   const std::string& folder) {
  std::vector<Prepared> prepared;
  const auto pointers = [](const std::vector<std::string>& words) {
    std::vector<char*> out;
    for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
  };
  for (const GuardedProcess& process : processes) {
    prepared.push_back({pointers(process.command), pointers(process.environment),
                        process.error_file.c_str(), process.rank});
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    ThrowInput(912, std::string("cannot start the job's processes: ") + std::strerror(errno),
               "raise the limit of open files (ulimit -n)", ExitCode::kPartial);
  }
  std::fflush(nullptr);  // nothing of ours may be printed twice
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    Guard(&prepared, page, ends[0], folder);
  }
  const int trouble = errno;
  close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) {
    close(pipe_);
    ThrowInput(912, std::string("cannot start the job's processes: ") + std::strerror(trouble),
               "raise the limit of processes (ulimit -u)", ExitCode::kPartial);
  }
}

Guardian::~Guardian() { KillAll(); }

bool Guardian::Ended() {
  if (pid_ < 0) return true;
  const pid_t got = waitpid(pid_, nullptr, WNOHANG);
  if (got == 0) return false;
  pid_ = -1;
  return true;
}

void Guardian::KillAll() {
  if (pipe_ >= 0 && pid_ >= 0) {
    // A guardian that has just ended leaves the pipe without a reader: no signal for that.
    const auto before = signal(SIGPIPE, SIG_IGN);
    const ssize_t ignored = write(pipe_, &kKill, 1);
    (void)ignored;
    signal(SIGPIPE, before);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  if (pipe_ >= 0) close(pipe_);
  pipe_ = -1;
}

}  // namespace aurum
