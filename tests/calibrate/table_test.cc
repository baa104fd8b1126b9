#include "calibrate/table.h"

#include <doctest/doctest.h>

#include "tests/support/shared.h"

namespace aurum {
namespace {

const std::string kGemm = "# a comment\nm,n,k,dtype,latency_us\n";

TEST_CASE("table: rows of the type asked for, in seconds, whatever the line ends") {
  const auto rows =
      ReadGemmTable("# c\r\nm,n,k,dtype,latency_us\r\n1,2,3,bfloat16,4.5\r\n\r\n7,8,9,fp8,1\r\n",
                    "t.csv", "bfloat16");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].n == 2);
  CHECK(rows[0].seconds == doctest::Approx(4.5e-6));
}

TEST_CASE("table: malformed rows are refused with code and place") {
  struct Bad {
    const char* row;
    int code, column;
  };
  for (const Bad& bad : {Bad{"1,2,3,bfloat16", 821, 15}, Bad{"1,2,3,bfloat16,4,5", 821, 18},
                         Bad{"1,x2,3,bfloat16,4", 822, 3}, Bad{"1,2,3,bfloat16,", 822, 16},
                         Bad{"1,2,3,bfloat16,nan", 822, 16}, Bad{"1,2,3,bfloat16,4us", 822, 16},
                         Bad{"1,0,3,bfloat16,4", 823, 3}, Bad{"1,2,3,bfloat16,-4", 823, 16},
                         Bad{"1,2,3,bfloat16,0", 823, 16}}) {
    CAPTURE(bad.row);
    const Diagnostic d = ThrownBy(
        [&] { ReadGemmTable(kGemm + "1,1,1,bfloat16,1\n" + bad.row + "\n", "t.csv", "bfloat16"); });
    CHECK(d.code == bad.code);
    CHECK(d.where.file == "t.csv");
    CHECK(d.where.line == 4);
    CHECK(d.where.column == bad.column);
    CHECK(d.where.text == bad.row);
    CHECK(!d.help.empty());
  }
}

TEST_CASE("table: header, emptiness, unknown operations") {
  Diagnostic d = ThrownBy([] { ReadGemmTable("m,k,n,dtype,latency_us\n", "t.csv", "bfloat16"); });
  CHECK(d.code == 820);
  CHECK(d.help == "expected: m,n,k,dtype,latency_us");
  CHECK(ThrownBy([] { ReadGemmTable("", "t.csv", "bfloat16"); }).code == 820);
  CHECK(ThrownBy([] { ReadGemmTable(kGemm + "1,1,1,fp8,1\n", "t.csv", "bfloat16"); }).code == 825);
  d = ThrownBy([] {
    ReadCollectiveTable("op,dtype,gpus,bytes,latency_us\nall_redcue,half,8,1,1\n", "t.csv", "half");
  });
  CHECK(d.code == 824);
  CHECK(d.where.line == 2);
  CHECK(ThrownBy([] {
          ReadCollectiveTable("op,dtype,gpus,bytes,latency_us\nall_reduce,half,1,1,1\n", "t.csv",
                              "half");
        }).code == 823);
}

TEST_CASE("table: attention, kv_heads 0 means as many as heads") {
  const auto rows = ReadAttentionTable(
      "batch,seq_len,past_len,heads,kv_heads,head_dim,dtype,latency_us\n2,128,0,16,0,64,bfloat16,"
      "3\n",
      "t.csv", "bfloat16");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kv_heads == 16);
  CHECK(rows[0].head_dim == 64);
}

}  // namespace
}  // namespace aurum
