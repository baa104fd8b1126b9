#include "sim/core/object_reader.h"

#include <doctest/doctest.h>

#include "tests/support/shared.h"

namespace aurum {
namespace {

TEST_CASE("the strict reader names the wrong key, type and range") {
  const JsonDocument d = ParseJson(
      "{\"micro_batchsize\": 1, \"tp\": \"two\", \"pp\": -1, \"zero\": 1.5}", "plan.json");
  {
    ObjectReader reader(d, d.root, "/plan");
    reader.Ignore("tp");
    reader.Ignore("pp");
    reader.Ignore("zero");
    reader.IntegerOr("micro_batch_size", 1, 1, 10);
    const Diagnostic unknown = ThrownBy([&] { reader.Finish(); });
    CHECK(unknown.code == 101);
    CHECK(unknown.help == "did you mean 'micro_batch_size'?");
    CHECK(unknown.where.pointer == "/plan/micro_batchsize");
  }
  ObjectReader reader(d, d.root, "/plan");
  CHECK(ThrownBy([&] { reader.Integer("tp", 1, 8); }).code == 103);
  CHECK(ThrownBy([&] { reader.Integer("pp", 1, 8); }).code == 107);
  CHECK(ThrownBy([&] { reader.Integer("zero", 0, 3); }).code == 103);
  CHECK(ThrownBy([&] { reader.Integer("micro_batch_size", 1, 8); }).help.find("micro_batchsize") !=
        std::string::npos);
}

TEST_CASE("a missing key is explained by its nearest neighbour, not by the last similar one") {
  const JsonDocument document =
      ParseJson(R"({"weight_byte": 2, "weights_bits": 4, "gradient_bytes": 4})", "x.json");
  ObjectReader reader(document, document.root, "");
  const Diagnostic d = ThrownBy([&] { reader.Number("weight_bytes", 0, 10); });
  CHECK(d.code == 102);
  CHECK(d.help == "did you misspell it as 'weight_byte'?");
}

}  // namespace
}  // namespace aurum
