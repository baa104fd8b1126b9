#include "calibrate/import.h"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/exact_calls.h"
#include "calibrate/fit_profile.h"
#include "calibrate/measure.h"
#include "sim/core/text_file.h"
#include "sim/plan/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "aurum-import-test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = (path_ / name).string();
    WriteTextFile(path, text);
    return path;
  }
  std::string Path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Imported {
  Measurements measurements;
  std::vector<std::string> remarks;
};

Imported Import(const std::vector<std::string>& paths, const ImportOptions& options = {}) {
  Imported out;
  ImportFiles(paths, options, &out.measurements, &out.remarks);
  return out;
}

// What all_reduce_perf prints on one node of 8, of our own making: 20 µs and 200 GB/s.
std::string NcclLog(int sizes, const std::string& second_host = "node-a") {
  std::string text = "# Collective test starting: all_reduce_perf\n";
  for (int i = 0; i < 8; ++i) {
    text += "#  Rank  " + std::to_string(i) + " Group  0 Pid 1 on " +
            (i < 4 ? "node-a" : second_host) + " device  " + std::to_string(i) + " [0x0" +
            std::to_string(i) + "] NVIDIA Test GPU\n";
  }
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n";
  double bytes = 1 << 20;
  for (int i = 0; i < sizes; ++i, bytes *= 4) {
    const double microseconds = 20 + bytes / 200e9 * 1e6;
    const double rate = bytes / microseconds / 1e3;
    char line[256];
    std::snprintf(line, sizeof line,
                  "%.0f %.0f bfloat16 sum -1 %.3f %.4f %.4f 0 %.3f %.4f %.4f 0\n", bytes, bytes / 2,
                  microseconds, rate, rate * 1.75, microseconds, rate, rate * 1.75);
    text += line;
  }
  return text;
}

TEST_CASE("import: nccl-tests become curves of a profile, the rest is the base's") {
  const Folder folder;
  const Imported imported = Import({folder.Write("nccl.log", NcclLog(7))});
  REQUIRE(imported.measurements.rows.size() == 7);
  CHECK(imported.measurements.rows[0].item.collective == CollectiveKind::kAllReduce);
  CHECK(imported.measurements.rows[0].item.gpus == 8);
  const Profile base = ReadProfile(OpenProfile("h100", "."));
  FitProfileOptions options;
  options.name = "mine";
  options.base = &base;
  Measurements measurements = imported.measurements;
  measurements.device.backend = "import";
  const ProfileFit fit = FitProfileWithReport(measurements, options);
  const CollectiveEnvelope* mine = fit.profile.Envelope(CollectiveKind::kAllReduce, 8);
  REQUIRE(mine != nullptr);
  CHECK(EnvelopeSeconds(*mine, 1e8) == doctest::Approx(20e-6 + 1e8 / 200e9).epsilon(0.002));
  CHECK(mine->quality.source.find("nccl.log") != std::string::npos);
  // Products are those of the base, and say so.
  CHECK(fit.profile.GemmSeconds(4096, 4096, 4096, DType::kBf16) ==
        base.GemmSeconds(4096, 4096, 4096, DType::kBf16));
  CHECK(fit.profile.gemm.at(DType::kBf16).quality.source.find("profile h100: ") == 0);
  CHECK(fit.profile.device.name == base.device.name);
}

TEST_CASE("import: a log that no profile can be made of says what is wrong, and where") {
  const Folder folder;
  const auto refused = [&](const std::string& text, const ImportOptions& options = {}) {
    const std::string path = folder.Write("nccl.log", text);
    const Diagnostic d = ThrownBy([&] { Import({path}, options); });
    CHECK(d.where.file == path);
    return d;
  };
  Diagnostic d = refused(NcclLog(4));
  CHECK(d.code == 843);
  CHECK(d.help.find("-f 2") != std::string::npos);
  d = refused(NcclLog(7, "node-b"));
  CHECK(d.code == 844);
  CHECK(d.message.find("2 nodes") != std::string::npos);
  CHECK(d.message.find("node-b") == std::string::npos);  // hosts are nobody's business
  std::string text = NcclLog(7);
  text.replace(text.rfind(" 0\n"), 3, " 5\n");
  d = refused(text);
  CHECK(d.code == 842);
  CHECK(d.where.line == 17);
  text = NcclLog(7);
  text.erase(text.find("#  Rank  1"), text.find("#       size") - text.find("#  Rank  1"));
  CHECK(refused(text).code == 840);
  text = NcclLog(7);
  text.erase(text.find("#  Rank"), text.find("#       size") - text.find("#  Rank"));
  ImportOptions four;
  four.gpus = 4;
  d = refused(text, four);
  CHECK(d.code == 845);
  CHECK(d.help.find("--gpus 8") != std::string::npos);
  CHECK(Import({folder.Write("nccl.log", text)}).measurements.rows.size() == 7);
  // 1 GiB in a microsecond.
  text = NcclLog(7) + "1073741824 536870912 bfloat16 sum -1 1.0 1.0 1.75 0 1.0 1.0 1.75 0\n";
  CHECK(refused(text).code == 841);
  // Files of no kind.
  const auto file = [&](const std::string& content) {
    return ThrownBy([&] { Import({folder.Write("file", content)}); }).code;
  };
  CHECK(file("\x1f\x8b\x08") == 835);
  CHECK(file("{\"schema\": \"aurum.profile/1\"}") == 835);
  CHECK(file("hello\n") == 571);
  CHECK(ThrownBy([&] { Import({folder.Path("absent")}); }).code == 201);
}

TEST_CASE("import: real logs of nccl-tests give a profile or an exact diagnostic") {
  const std::string folder = SharedPath("data/nccl-tests-logs");
  if (folder.empty()) return;
  const auto code = [&](const std::string& file, const ImportOptions& options = {}) {
    return ThrownBy([&] { Import({folder + "/" + file}, options); }).code;
  };
  CHECK(code("nccltests_1gpu_absurd_bw.log") == 840);
  CHECK(code("nccltests_gh200_2n8g.log") == 844);
  CHECK(code("nccltests_p5_2n16g_prefixed_elided.log") == 844);
  CHECK(code("nccltests_sendrecv_wrong_3e2.log") == 842);
  CHECK(code("nccltests_old_noredop_2g.log") == 572);
  ImportOptions told;
  told.kind = CollectiveKind::kAllReduce;
  told.gpus = 2;
  CHECK(Import({folder + "/nccltests_old_noredop_2g.log"}, told).measurements.rows.size() == 12);
  const Imported p5 = Import({folder + "/nccltests_p5_1n8g_prefixed.log"});
  REQUIRE(p5.measurements.rows.size() == 32);
  CHECK(p5.measurements.rows.back().item.gpus == 8);
}

std::string KinetoTrace(int rank, double nccl_us) {
  return R"({"schemaVersion": 1, "distributedInfo": {"rank": )" + std::to_string(rank) +
         R"(, "world_size": 2}, "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9, "args": {"External id": 7,
   "Input Dims": [[512, 1024], [1024, 2048]], "Input type": ["c10::BFloat16", "c10::BFloat16"],
   "Concrete Inputs": ["", ""]}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 2, "dur": 9, "args": {"External id": 8}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::_scaled_dot_product_flash_attention", "ts": 3,
   "dur": 9, "args": {"External id": 9, "Input Dims": [[2, 16, 1024, 64], [2, 4, 1024, 64],
   [2, 4, 1024, 64], [], [], []], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16",
   "Scalar", "Scalar", "Scalar"], "Concrete Inputs": ["", "", "", "0.", "True", "False"]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 4, "dur": 1,
   "args": {"External id": 9, "correlation": 31}},
  {"ph": "X", "cat": "kernel", "name": "gemm_bf16", "ts": 5, "dur": 40.5,
   "args": {"External id": 7, "correlation": 30}},
  {"ph": "X", "cat": "kernel", "name": "splitk_reduce", "ts": 50, "dur": 2.5,
   "args": {"External id": 7, "correlation": 32}},
  {"ph": "X", "cat": "kernel", "name": "flash_fwd", "ts": 60, "dur": 80,
   "args": {"correlation": 31}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "ts": 200, "dur": )" +
         std::to_string(nccl_us) +
         R"(, "args": {"Collective name": "_allgather_base", "In msg nelems": 1000000,
   "Out msg nelems": 2000000, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "1"}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic", "ts": 400, "dur": 3, "args": {}}
]})";
}

TEST_CASE("import: PyTorch traces: shapes by operator, collectives by the last rank") {
  const Folder folder;
  // Rank 0 came 300 µs early and waited.
  const std::vector<std::string> paths = {folder.Write("rank0.json", KinetoTrace(0, 420)),
                                          folder.Write("rank1.json", KinetoTrace(1, 120))};
  const Imported imported = Import(paths);
  const auto& rows = imported.measurements.rows;
  REQUIRE(rows.size() == 3);
  // A product is the sum of what it launched, twice seen.
  CHECK(rows[0].item.kernel.kind == KernelKind::kGemm);
  CHECK(rows[0].item.kernel.m == 512);
  CHECK(rows[0].item.kernel.n == 2048);
  CHECK(rows[0].item.kernel.k == 1024);
  CHECK(rows[0].item.kernel.dtype == DType::kBf16);
  CHECK(rows[0].samples.seconds.size() == 2);
  CHECK(TypicalSeconds(rows[0]) == doctest::Approx(43e-6));
  // Attention through its launch's correlation.
  CHECK(rows[1].item.kernel.kind == KernelKind::kAttentionForward);
  CHECK(rows[1].item.kernel.kv_heads == 4);
  CHECK(rows[1].item.kernel.causal);
  CHECK(TypicalSeconds(rows[1]) == doctest::Approx(80e-6));
  // What is gathered: twice a rank's part; the rank that came last did not wait.
  CHECK(rows[2].item.kind == MeasuredKind::kCollective);
  CHECK(rows[2].item.collective == CollectiveKind::kAllGather);
  CHECK(rows[2].item.bytes == 4e6);
  CHECK(rows[2].item.gpus == 2);
  CHECK(TypicalSeconds(rows[2]) == doctest::Approx(120e-6));
  const auto told = [&](const Imported& of, const std::string& what) {
    return std::any_of(of.remarks.begin(), of.remarks.end(), [&](const std::string& remark) {
      return remark.find(what) != std::string::npos;
    });
  };
  CHECK(told(imported, "2 NCCL kernels without a size"));
  CHECK(told(imported, "record_shapes=True"));
  CHECK(!told(imported, "one trace alone"));
  CHECK(told(Import({paths[0]}), "one trace alone"));
  // Cut off anywhere: refused, never half of it.
  const std::string whole = KinetoTrace(0, 420);
  for (const std::size_t end : {whole.size() / 2, whole.size() - 2}) {
    const Diagnostic d =
        ThrownBy([&] { Import({folder.Write("cut.json", whole.substr(0, end))}); });
    CHECK(d.code == 837);
    CHECK(d.where.file.find("cut.json") != std::string::npos);
    CHECK(d.help.find("whole") != std::string::npos);
  }
}

void Run(const std::string& path, const std::string& statements) {
  std::filesystem::remove(path);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  char* message = nullptr;
  const int code = sqlite3_exec(database, statements.c_str(), nullptr, nullptr, &message);
  CAPTURE(std::string(message == nullptr ? "" : message));
  CHECK(code == SQLITE_OK);
  sqlite3_free(message);
  sqlite3_close(database);
}

TEST_CASE("import: Nsight Systems: products inside of ranges with sizes; NCCL is counted") {
  const Folder folder;
  const std::string path = folder.Path("trace.sqlite");
  const std::string kernels =
      "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
      "INSERT INTO StringIds "
      "VALUES(1,'cutlass_tensorop_bf16_s16816gemm'),(2,'ncclDevKernel_AllReduce'),"
      "(3,'aten::mm, op_id = 5, sizes = [[512, 1024], [1024, 2048]]');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, correlationId INT, "
      "demangledName INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1000,41000,1,1),(50000,90000,2,2),"
      "(100000,150000,3,1);";
  const std::string ranges =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT, correlationId INT, globalTid INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(100,1,9),(200,2,9),(900,3,9);"
      "CREATE TABLE NVTX_EVENTS(start INT, end INT, text TEXT, textId INT, globalTid INT);"
      "INSERT INTO NVTX_EVENTS VALUES(50,150,NULL,3,9),(160,300,'step',NULL,9);";
  Run(path, kernels + ranges);
  const Imported imported = Import({path});
  REQUIRE(imported.measurements.rows.size() == 1);
  const MeasuredRow& row = imported.measurements.rows[0];
  CHECK(row.item.kernel.n == 2048);
  CHECK(row.item.kernel.dtype == DType::kBf16);
  CHECK(TypicalSeconds(row) == doctest::Approx(40e-6));  // the third was launched outside
  REQUIRE(!imported.remarks.empty());
  CHECK(imported.remarks[0].find("1 NCCL kernels left out") == 0);
  // Without ranges nothing tells a size.
  Run(path, kernels);
  const Diagnostic d = ThrownBy([&] { Import({path}); });
  CHECK(d.code == 836);
  CHECK(d.help.find("emit_nvtx") != std::string::npos);
  Run(path, "CREATE TABLE StringIds(id INT, value TEXT);");
  CHECK(ThrownBy([&] { Import({path}); }).message.find("no kernels were traced") !=
        std::string::npos);
  CHECK(ThrownBy([&] {
          Import({folder.Write("bad.sqlite", "SQLite format 3" + std::string(1, '\0') + "rest")});
        }).code == 838);
}

TEST_CASE("import: tables are known by their header, and several files are joined") {
  const Folder folder;
  const std::string gemm = folder.Write(
      "gemm.csv", "# ours\nm,n,k,dtype,latency_us\n512,512,512,bfloat16,5\n512,512,512,half,6\n");
  const Imported imported = Import({gemm, folder.Write("nccl.log", NcclLog(6))});
  CHECK(imported.measurements.rows.size() == 8);
  CHECK(imported.measurements.rows[0].item.kernel.dtype == DType::kBf16);
  CHECK(imported.measurements.rows[1].item.kernel.dtype == DType::kFp16);
  const Diagnostic d = ThrownBy(
      [&] { Import({folder.Write("bad.csv", "m,n,k,dtype,latency_us\n512,x,512,bfloat16,5\n")}); });
  CHECK(d.code == 822);
  CHECK(d.where.line == 2);
}

TEST_CASE(
    "calls of a plan: distinct, whole, on the device, and its collectives with their groups") {
  InputCache cache(".");
  const Scenario scenario =
      ReadScenario(ReadJsonFile("scenarios/llava-1.6-7b-finetune-8xa100.json"), &cache);
  ExactCalls calls;
  AddCallsOf(scenario, &calls);
  const std::size_t kernels = calls.kernels.size();
  CHECK(kernels > 10);
  CHECK(kernels < 200);
  bool forward = false, gradient = false, attention = false;
  for (std::size_t i = 0; i < kernels; ++i) {
    const Kernel& k = calls.kernels[i];
    CHECK(k == RoundedUp(k));
    CHECK(k.kind != KernelKind::kHost);
    for (std::size_t j = 0; j < i; ++j) CHECK(!(calls.kernels[j] == k));
    forward = forward || (k.kind == KernelKind::kGemm && k.role == GemmRole::kForward);
    gradient = gradient || (k.kind == KernelKind::kGemm && k.role == GemmRole::kWeightGradient);
    attention = attention || k.kind == KernelKind::kAttentionBackward;
  }
  CHECK(forward);
  CHECK(gradient);
  CHECK(attention);
  REQUIRE(!calls.collectives.empty());
  for (const ExactCollective& call : calls.collectives) {
    CHECK(call.gpus >= 2);
    CHECK(call.gpus <= 8);
  }
  // The same plan again adds nothing.
  AddCallsOf(scenario, &calls);
  CHECK(calls.kernels.size() == kernels);
}

}  // namespace
}  // namespace aurum
