#include "real/job_folder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <utility>

#include "real/execution.h"
#include "sim/core/object_reader.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

constexpr std::uint64_t kMagic = 0x41557255'6d4a0001ULL;
constexpr double kHuge = 1e30;
constexpr std::int64_t kMany = std::int64_t{1} << 40;

std::string RankFile(const std::string& folder, int rank, const char* end) {
  return folder + "/rank-" + std::to_string(rank) + end;
}

Json Facts(const RankFacts& facts) {
  Json out = Json::Object();
  out.Set("rank", facts.rank);
  out.Set("host", facts.host);
  out.Set("device", facts.device);
  out.Set("peak_memory_bytes", facts.peak_memory_bytes);
  out.Set("clock_before_mhz", facts.clock_before_mhz);
  out.Set("clock_after_mhz", facts.clock_after_mhz);
  out.Set("throttled_share", facts.throttled_share);
  return out;
}

}  // namespace

std::string JobFile(const std::string& folder) { return folder + "/job.json"; }
std::string ProgressFile(const std::string& folder) { return folder + "/progress"; }
std::string OpsFile(const std::string& folder, int rank) { return RankFile(folder, rank, ".ops"); }
std::string ResultFile(const std::string& folder, int rank) {
  return RankFile(folder, rank, ".json");
}
std::string ErrorFile(const std::string& folder, int rank) {
  return RankFile(folder, rank, ".err");
}
std::string LauncherErrorFile(const std::string& folder) { return folder + "/launcher.err"; }
std::string MeasurementsFile(const std::string& folder) { return folder + "/measurements.json"; }

Json WriteJob(const Job& job) {
  Json steps = Json::Object();
  steps.Set("warm_up", job.steps.warm_up);
  steps.Set("steps", job.steps.steps);
  steps.Set("timed_steps", job.steps.timed_steps);
  Json out = Json::Object();
  out.Set("what", job.what);
  out.Set("scenario", job.scenario);
  out.Set("data_root", job.data_root);
  out.Set("ranks", job.ranks);
  out.Set("lone_rank", job.lone_rank);
  out.Set("steps", std::move(steps));
  // As text: JSON's integers here have a sign.
  out.Set("seed", std::to_string(job.seed));
  out.Set("options", job.options);
  return out;
}

Job ReadJob(const JsonDocument& document) {
  ObjectReader reader(document, document.root, "");
  Job job;
  job.what = reader.String("what");
  if (reader.Has("scenario")) job.scenario = reader.Value("scenario");  // none to calibrate
  job.data_root = reader.String("data_root");
  job.ranks = static_cast<int>(reader.Integer("ranks", 1, 1 << 24));
  job.lone_rank = static_cast<int>(reader.Integer("lone_rank", -1, 1 << 24));
  ObjectReader steps = reader.Object("steps");
  job.steps.warm_up = static_cast<int>(steps.Integer("warm_up", 0, 1 << 24));
  job.steps.steps = static_cast<int>(steps.Integer("steps", 0, 1 << 24));
  job.steps.timed_steps = static_cast<int>(steps.Integer("timed_steps", 0, 1 << 24));
  steps.Finish();
  job.seed = std::stoull(reader.String("seed"));
  if (reader.Has("options")) job.options = reader.Value("options");
  reader.Finish();
  return job;
}

Json WriteRankRun(const RankRun& run) {
  Json steps = Json::Array();
  for (const RankBackend::StepTime& step : run.steps) {
    Json one = Json::Object();
    one.Set("seconds", step.seconds);
    one.Set("wall_s", step.wall_s);
    one.Set("disturbed", step.disturbed);
    steps.Append(std::move(one));
  }
  Json timed = Json::Array();
  for (const auto& step : run.timed) {
    std::vector<double> starts, durations;
    for (const RankBackend::OpTime& op : step) {
      starts.push_back(op.start_s);
      durations.push_back(op.duration_s);
    }
    Json one = Json::Object();
    one.Set("starts_s", Json::Numbers(starts));
    one.Set("durations_s", Json::Numbers(durations));
    timed.Append(std::move(one));
  }
  Json checks = Json::Array();
  for (const RunCheck& check : run.checks) {
    Json one = Json::Object();
    one.Set("name", check.name);
    one.Set("passed", check.passed);
    one.Set("detail", check.detail);
    checks.Append(std::move(one));
  }
  Json out = Json::Object();
  out.Set("facts", Facts(run.facts));
  out.Set("steps", std::move(steps));
  out.Set("timed", std::move(timed));
  out.Set("checks", std::move(checks));
  return out;
}

RankRun ReadRankRun(const JsonDocument& document) {
  ObjectReader reader(document, document.root, "");
  RankRun run;
  ObjectReader facts = reader.Object("facts");
  run.facts.rank = static_cast<int>(facts.Integer("rank", 0, 1 << 24));
  run.facts.host = facts.String("host");
  run.facts.device = facts.String("device");
  run.facts.peak_memory_bytes = facts.Number("peak_memory_bytes", 0, kHuge);
  run.facts.clock_before_mhz = facts.Number("clock_before_mhz", 0, kHuge);
  run.facts.clock_after_mhz = facts.Number("clock_after_mhz", 0, kHuge);
  run.facts.throttled_share = facts.Number("throttled_share", 0, 1);
  facts.Finish();
  for (ObjectReader& step : reader.Objects("steps")) {
    run.steps.push_back({step.Number("seconds", 0, kHuge), step.Number("wall_s", 0, kHuge),
                         step.Bool("disturbed")});
    step.Finish();
  }
  for (ObjectReader& step : reader.Objects("timed")) {
    const std::vector<double> starts = step.Numbers("starts_s", 0, kHuge);
    const std::vector<double> durations = step.Numbers("durations_s", 0, kHuge);
    step.Finish();
    auto& ops = run.timed.emplace_back();
    for (std::size_t i = 0; i < std::min(starts.size(), durations.size()); ++i) {
      ops.push_back({starts[i], durations[i]});
    }
  }
  for (ObjectReader& check : reader.Objects("checks")) {
    run.checks.push_back({check.String("name"), check.Bool("passed"), check.String("detail")});
    check.Finish();
  }
  reader.Finish();
  return run;
}

Json WriteRankError(const InputError& error) {
  const Diagnostic& d = error.diagnostic();
  Json one = Json::Object();
  one.Set("code", d.code);
  one.Set("exit_code", static_cast<int>(error.exit_code()));
  one.Set("message", d.message);
  one.Set("file", d.where.file);
  one.Set("line", d.where.line);
  one.Set("column", d.where.column);
  one.Set("pointer", d.where.pointer);
  one.Set("text", d.where.text);
  one.Set("note", d.note);
  one.Set("help", d.help);
  Json out = Json::Object();
  out.Set("error", std::move(one));
  return out;
}

std::optional<InputError> ReadRankError(const JsonDocument& document) {
  if (document.root.Find("error") == nullptr) return std::nullopt;
  ObjectReader reader(document, document.root, "");
  ObjectReader e = reader.Object("error");
  Diagnostic d;
  d.code = static_cast<int>(e.Integer("code", 0, kMany));
  const auto exit_code = static_cast<ExitCode>(e.Integer("exit_code", 0, 255));
  d.message = e.String("message");
  d.where.file = e.String("file");
  d.where.line = static_cast<int>(e.Integer("line", 0, kMany));
  d.where.column = static_cast<int>(e.Integer("column", 0, kMany));
  d.where.pointer = e.String("pointer");
  d.where.text = e.String("text");
  d.note = e.String("note");
  d.help = e.String("help");
  return InputError(std::move(d), exit_code);
}

std::vector<OpOfRank> OpsOfRank(const Program& program, const Scenario& scenario,
                                const RankProgram& mine) {
  std::vector<OpOfRank> ops;
  for (const RankOp& op : mine.ops) {
    OpOfRank& out = ops.emplace_back();
    out.name = NameOf(program, scenario, op.op);
    out.op = op.op;
    if (op.kind == RankOpKind::kCollective) out.needs = mine.groups[op.group].ranks;
    if (op.kind == RankOpKind::kReceive) {
      out.needs = op.peers;
      out.name = "message of " + out.name;
    }
    std::erase(out.needs, mine.rank);
  }
  return ops;
}

// One op a line: op, needs with commas, name.
void WriteOps(const std::string& folder, int rank, const std::vector<OpOfRank>& ops) {
  std::string text;
  for (const OpOfRank& op : ops) {
    text += std::to_string(op.op) + '\t';
    for (std::size_t i = 0; i < op.needs.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(op.needs[i]);
    }
    text += '\t' + op.name + '\n';
  }
  WriteTextFile(OpsFile(folder, rank), text);
}

std::vector<OpOfRank> ReadOps(const std::string& folder, int rank) {
  std::vector<OpOfRank> ops;
  std::ifstream in(OpsFile(folder, rank));
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find('\t');
    const std::size_t second = first == std::string::npos ? first : line.find('\t', first + 1);
    if (second == std::string::npos) continue;
    OpOfRank& op = ops.emplace_back();
    op.op = static_cast<OpId>(std::stoul(line.substr(0, first)));
    std::istringstream needs(line.substr(first + 1, second - first - 1));
    for (std::string rank_text; std::getline(needs, rank_text, ',');) {
      op.needs.push_back(std::stoi(rank_text));
    }
    op.name = line.substr(second + 1);
  }
  return ops;
}

ProgressPage::ProgressPage(void* memory, std::size_t bytes)
    : memory_(memory),
      bytes_(bytes),
      header_(static_cast<Header*>(memory)),
      slots_(reinterpret_cast<RankSlot*>(static_cast<char*>(memory) + sizeof(Header))) {}

ProgressPage::ProgressPage(ProgressPage&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      header_(other.header_),
      slots_(other.slots_) {}

ProgressPage::~ProgressPage() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

ProgressPage ProgressPage::Create(const std::string& folder, int ranks) {
  const std::size_t bytes = sizeof(Header) + static_cast<std::size_t>(ranks) * sizeof(RankSlot);
  const std::string file = ProgressFile(folder);
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  // posix_fallocate, so that a full disk is an error here and not a SIGBUS later.
  const int trouble = fd < 0 ? errno : posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (trouble == 0) memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) {
    ThrowInput(912, "cannot make '" + file + "': " + std::strerror(trouble != 0 ? trouble : errno),
               "free some space there, or set TMPDIR to another folder");
  }
  ProgressPage page(memory, bytes);
  new (memory) Header{};
  page.header_->ranks = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    new (&page.slots_[rank]) RankSlot{};
    page.slots_[rank].op = -1;
  }
  page.header_->magic = kMagic;
  return page;
}

ProgressPage ProgressPage::Open(const std::string& folder) {
  const std::string file = ProgressFile(folder);
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  void* memory = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &status) == 0 &&
      static_cast<std::size_t>(status.st_size) >= sizeof(Header)) {
    memory = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
  }
  if (fd >= 0) close(fd);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  bool known = false;
  if (memory != MAP_FAILED) {
    const Header* header = static_cast<const Header*>(memory);
    known = header->magic == kMagic && header->ranks > 0 &&
            bytes >= sizeof(Header) + static_cast<std::size_t>(header->ranks) * sizeof(RankSlot);
    if (!known) munmap(memory, bytes);
  }
  if (!known) {
    ThrowInput(912, "'" + folder + "' is not the folder of a job",
               "this program is started by aurum, not by hand");
  }
  return ProgressPage(memory, bytes);
}

void ProgressPage::Ended(int rank, int status) const {
  RankSlot& slot = slots_[rank];
  slot.status.store(status, std::memory_order_relaxed);
  slot.ended.store(header_->endings.fetch_add(1) + 1, std::memory_order_release);
}

}  // namespace aurum
