#include "sim/collectives/nccl_tests.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/core/diagnostic.h"
#include "sim/core/text_file.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Written for these tests in the formats of nccl-tests 2.0 (error), 2.13 and 2.17.
constexpr char kNew[] =
    "# Collective test starting: all_gather_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 128\n"
    "#  Rank  0 Group  0 Pid 11 on host-secret device  0 [0000:01:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid 12 on host-secret device  1 [0000:02:00] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us) "
    " (GB/s)  (GB/s)\n"
    "    67108864       8388608     float    none      -1    500.0  134.22   67.11      0    490.0 "
    " 136.96   68.48    N/A\n"
    "           0             0     float    none      -1     5.00    0.00    0.00      0     5.00 "
    "   0.00    0.00      0\n"
    "# Out of bounds values : 0 OK\n";

TEST_CASE("the text of today, with any prefix before its lines") {
  for (const std::string prefix :
       {"", "[1,0]<stdout>:", "[1,12]<stdout>: ", "2024-05-01T12:00:00.123Z ",
        "2024-05-01 12:00:00,123 ", "[2024-05-01 12:00:00] ", "12:00:00 ",
        "0: ", "2024-05-01T12:00:00Z [1,0]<stdout>:"}) {
    CAPTURE(prefix);
    std::string text;
    std::string line;
    for (const char c : std::string(kNew)) {
      if (line.empty()) line = prefix;
      line += c;
      if (c != '\n') continue;
      text += line;
      line.clear();
    }
    const std::vector<NcclTestRun> runs = ReadNcclTests("f.log", text);
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].kind == CollectiveKind::kAllGather);
    CHECK(runs[0].gpus == 2);
    CHECK(runs[0].gpu == "NVIDIA H100 80GB HBM3");
    REQUIRE(runs[0].rows.size() == 1);  // size 0 is no measurement
    const NcclTestRow& row = runs[0].rows[0];
    CHECK(row.bytes == 67108864);
    CHECK(row.type == "float");
    CHECK(row.redop == "none");
    CHECK(row.out_of_place_s == doctest::Approx(500e-6));
    CHECK(row.in_place_s == doctest::Approx(490e-6));
    CHECK(row.in_place_busbw == doctest::Approx(68.48e9));
    CHECK_FALSE(row.wrong);
    CHECK(row.line == 7);
  }
}

TEST_CASE("old files, files without a header, several tests in one, wrong results") {
  const std::vector<NcclTestRun> runs = ReadNcclTests(
      "f.log",
      "     1048576        131072   float    47.38   11.06   11.06  0e+00    46.84   11.19   11.19 "
      " "
      "0e+00\n"
      "...\n"
      "# Avg bus bandwidth    : 6.6972\n"
      "./build/broadcast_perf -b 8 -e 128M -f 2 -g 2\n"
      "# nThread 1 nGpus 2 minBytes 8\n"
      "     1048576        131072   float     sum   100.00   10.49   10.49  0e+00   100.00   10.49 "
      "  "
      "10.49  3e+02\n"
      "#       size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  "
      "#wrong\n"
      "# nThread 1 nGpus 2 minBytes 8\n"
      "     1048576        262144     float     sum      -1   100.00   10.49   18.35      0   "
      "100.00 "
      "  10.49   18.35      7  2024-05-01 12:00:00\n");
  REQUIRE(runs.size() == 3);
  CHECK_FALSE(runs[0].kind);
  CHECK(runs[0].rows[0].in_place_s == doctest::Approx(46.84e-6));
  CHECK(runs[1].kind == CollectiveKind::kBroadcast);
  CHECK(runs[1].rows[0].redop == "sum");
  CHECK(runs[1].rows[0].wrong);
  CHECK(runs[2].kind == CollectiveKind::kAllReduce);  // more busbw than algbw
  CHECK(runs[2].rows[0].wrong);
  CHECK(GpusByRatio(CollectiveKind::kAllReduce, runs[2]) == 8);
}

TEST_CASE("E0570 and E0571 say where, and what to do") {
  const auto thrown = [](const std::string& text) {
    return ThrownBy([&] { ReadNcclTests("f.log", text); });
  };
  Diagnostic d = thrown("# header\n 1024 256 float sum -1 12.0 0.09\n");
  CHECK(d.code == 570);
  CHECK(d.where.file == "f.log");
  CHECK(d.where.line == 2);
  CHECK_FALSE(d.help.empty());
  d = thrown(std::string(kNew) + " 1024 256 float none -1 12.0 x.09 0.09 0 12.0 0.09 0.09 0\n");
  CHECK(d.code == 570);
  CHECK(d.where.line == 10);
  CHECK(d.message.find("'x.09' is no algbw") != std::string::npos);
  CHECK(thrown(" 1024 256 float sum -1 nan 0.09 0.09 0 12.0 0.09 0.09 0\n").code == 570);
  CHECK(thrown("").code == 571);
  CHECK(thrown("hello\n# size time\n").code == 571);
  CHECK(thrown(std::string("\0\1\2 binary \xff", 16)).code == 571);
}

TEST_CASE("JSON: the results alone; nothing of the environment in a result or a message") {
  const std::string head =
      R"({"version":2,"args":["\/home\/someone\/build\/reduce_scatter_perf","-b","8"],)"
      R"("env":["TOKEN=secret"],"config":{"devices":[{"rank":0,"hostname":"secret",)"
      R"("device_info":"NVIDIA B200"},{"rank":1,"device_info":"NVIDIA B200"}]},"results":)";
  const std::vector<NcclTestRun> runs = ReadNcclTests(
      "f.json",
      head + R"([{"size":1048576,"count":262144,"type":"half","redop":"sum","root":"    -1",)"
             R"("out_of_place":{"time":20.5,"alg_bw":51.15,"bus_bw":25.58,"nwrong":0},)"
             R"("in_place":{"time":20.1,"alg_bw":"nan","bus_bw":26.08,"nwrong":null}},)"
             R"({"size":2097152,"out_of_place":null,"in_place":{"cpu_time":30,"bus_bw":35,)"
             R"("nwrong":2}}]})");
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].kind == CollectiveKind::kReduceScatter);
  CHECK(runs[0].gpus == 2);
  CHECK(runs[0].gpu == "NVIDIA B200");
  REQUIRE(runs[0].rows.size() == 2);
  CHECK(runs[0].rows[0].out_of_place_s == doctest::Approx(20.5e-6));
  CHECK_FALSE(runs[0].rows[0].wrong);
  CHECK(runs[0].rows[1].out_of_place_s == 0);
  CHECK(runs[0].rows[1].in_place_s == doctest::Approx(30e-6));
  CHECK(runs[0].rows[1].wrong);
  for (const std::string& rest :
       {std::string(R"([{"size":)"), std::string(R"({}})"), std::string(R"([{"time":1}]})"),
        std::string(R"([{"size":8,"in_place":{"time":true}}]})"), std::string(R"([]})")}) {
    CAPTURE(rest);
    const Diagnostic d = ThrownBy([&] { ReadNcclTests("f.json", head + rest); });
    CHECK((d.code == 570 || d.code == 571));
    CHECK(FormatDiagnostic(d).find("secret") == std::string::npos);
    CHECK_FALSE(d.help.empty());
  }
  // Cut off anywhere, it ends in a message.
  const std::string whole = head + R"([{"size":8,"in_place":{"time":1,"bus_bw":1}}]})";
  for (std::size_t end = 1; end < whole.size(); end += 7) {
    const Diagnostic d = ThrownBy([&] { ReadNcclTests("f.json", whole.substr(0, end)); });
    CHECK(d.code == 570);
    CHECK(FormatDiagnostic(d).find("secret") == std::string::npos);
  }
}

TEST_CASE("real files of others") {
  struct Real {
    std::string file;
    std::size_t rows;
    int gpus;
    bool wrong;
  };
  for (const Real& real : {Real{"nccltests_1gpu_absurd_bw.log", 1, 1, false},
                           {"nccltests_gh200_2n8g.log", 25, 8, false},
                           {"nccltests_old_noredop_2g.log", 12, 0, false},
                           {"nccltests_p5_1n8g_prefixed.log", 32, 0, false},
                           {"nccltests_p5_2n16g_prefixed_elided.log", 6, 0, false},
                           {"nccltests_sendrecv_wrong_3e2.log", 1, 0, true}}) {
    const std::string path = SharedPath("data/nccl-tests-logs/" + real.file);
    if (path.empty()) continue;
    CAPTURE(real.file);
    const std::vector<NcclTestRun> runs = ReadNcclTests(real.file, ReadTextFile(path));
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].rows.size() == real.rows);
    CHECK(runs[0].gpus == real.gpus);
    bool wrong = false;
    for (const NcclTestRow& row : runs[0].rows) wrong = wrong || row.wrong;
    CHECK(wrong == real.wrong);
  }
}

}  // namespace
}  // namespace aurum
