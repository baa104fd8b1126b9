#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/audit/audit.h"
#include "sim/audit/rows.h"
#include "tests/audit/claims.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

const Computations& DataComputations() {
  static const Computations known = [] {
    Computations all;
    AddDataRows(&all);
    return all;
  }();
  return known;
}
std::vector<Claim> DataClaims() {
  return ReadClaims(ReadJsonFile("scenarios/articles/claims/data.json"), DataComputations());
}
// The shipped claim, with changes.
AuditLine ChangedLine(const std::string& id, const std::function<void(Claim*)>& change = {}) {
  for (Claim claim : DataClaims()) {
    if (claim.id != id) continue;
    if (change) change(&claim);
    return Audit(claim, DataComputations(), &SharedContext());
  }
  FAIL("no claim " << id);
  return {};
}

TEST_CASE("every computation of these rows has a claim, and every claim says how it came about") {
  std::set<std::string> ids, rows;
  for (const Claim& claim : DataClaims()) {
    ids.insert(claim.id);
    rows.insert(claim.row);
  }
  for (const auto& [id, computation] : DataComputations()) CHECK_MESSAGE(ids.contains(id), id);
  CHECK(rows == std::set<std::string>{"A10", "A16", "B18", "B6"});
}

TEST_CASE("arithmetic: what the tables give is not what is claimed of them") {
  CHECK(ChangedLine("A10.comm_cut").recomputed.value == doctest::Approx(75));
  CHECK(ChangedLine("A10.comm_cut").verdict == Verdict::kRefuted);
  CHECK(ChangedLine("A10.comm_cut").recomputed.remark.find("N ≥ 20") != std::string::npos);
  CHECK(ChangedLine("A10.comm_cut", [](Claim* c) { c->given["experts"] = 20; }).verdict ==
        Verdict::kHolds);
  CHECK(ChangedLine("A10.comm_cut", [](Claim* c) { c->claimed = 75; }).verdict == Verdict::kHolds);
  CHECK(ChangedLine("A10.compute").recomputed.value == doctest::Approx(0.25));
  CHECK(ChangedLine("A10.compute", [](Claim* c) { c->given["choices"] = 8; }).verdict ==
        Verdict::kHolds);
  // More than 90 % is what is claimed: more experts keep it.
  CHECK(ChangedLine("A10.comm_cut", [](Claim* c) { c->given["experts"] = 128; }).verdict ==
        Verdict::kHolds);

  CHECK(ChangedLine("A16.together").recomputed.value == doctest::Approx(59.897).epsilon(1e-4));
  CHECK(ChangedLine("A16.together").verdict == Verdict::kRefuted);
  CHECK(ChangedLine("A16.kernel_alone").recomputed.value == doctest::Approx(37.018).epsilon(1e-4));
  CHECK(ChangedLine("A16.kernel_alone").verdict == Verdict::kHolds);
  CHECK(ChangedLine("A16.packing_alone").recomputed.value == doctest::Approx(36.327).epsilon(1e-4));
  CHECK(ChangedLine("A16.packing_alone").verdict == Verdict::kRefuted);
  CHECK(ChangedLine("A16.text").recomputed.value == doctest::Approx(38.318).epsilon(1e-4));
  CHECK(ChangedLine("A16.together", [](Claim* c) { c->given["multimodal_both"] = 2.45; }).verdict ==
        Verdict::kHolds);

  CHECK(ChangedLine("B18.budget").recomputed.value == doctest::Approx(38.4 / 27.6 * 100 - 100));
  CHECK(ChangedLine("B18.budget").verdict == Verdict::kRefuted);
  CHECK(ChangedLine("B18.budget", [](Claim* c) {
          c->given["lidar_batch"] = 14;
          c->given["audio_batch"] = 40;
        }).verdict == Verdict::kHolds);
  CHECK(ChangedLine("B18.batch").recomputed.value == 40);
  CHECK(ChangedLine("B18.batch").verdict == Verdict::kRefuted);
  CHECK(ChangedLine("B18.batch", [](Claim* c) { c->given["image_batch"] = 39; }).verdict ==
        Verdict::kHolds);
  CHECK(ChangedLine("B18.zero_copy").verdict == Verdict::kUndefined);
}

TEST_CASE("routing: the simulation sends k copies, and skew is not free") {
  const AuditLine cut = ChangedLine("A10.simulated_cut");
  CHECK(cut.recomputed.value == doctest::Approx(100 * (1 - 8.0 / 128)).epsilon(1e-6));
  CHECK(cut.verdict == Verdict::kHolds);
  CHECK(ChangedLine("A10.simulated_cut", [](Claim* c) { c->claimed = 75; }).verdict ==
        Verdict::kRefuted);
  // The measured exchanges' mean, 105.3 ms over 47.43 ms, beside the simulated one's.
  CHECK(cut.recomputed.remark.find("2.221 times as measured") != std::string::npos);
  const auto slower = [](Claim* c) { c->given["deepep_ms_3"] = 115.8; };
  CHECK(ChangedLine("A10.simulated_cut", slower).recomputed.remark.find("2.221") ==
        std::string::npos);
  const AuditLine skew = ChangedLine("A10.skew");
  CHECK(skew.recomputed.value > 2);
  CHECK(skew.verdict == Verdict::kRefuted);
}

TEST_CASE("attention kernels and packing: FLOPs, time, and what runs where") {
  const AuditLine flops = ChangedLine("A16.flash_flops");
  CHECK(flops.recomputed.value == 0);
  CHECK(flops.verdict == Verdict::kRefuted);
  CHECK(ChangedLine("A16.flash_flops", [](Claim* c) { c->claimed = 0; }).verdict ==
        Verdict::kHolds);
  const AuditLine packed = ChangedLine("A16.packed_flops");
  CHECK(packed.recomputed.value > 5);
  // Rows that are padded to nobody lose nothing but the pairs between samples, which packing keeps out.
  const AuditLine alone =
      ChangedLine("A16.packed_flops", [](Claim* c) { c->given["padded_rows"] = 1; });
  CHECK(alone.recomputed.value < packed.recomputed.value / 3);
  const AuditLine groups = ChangedLine("A16.groups");
  CHECK(groups.verdict == Verdict::kInput);
  CHECK(groups.recomputed.value > 0);
  CHECK(groups.recomputed.value < 10);
  CHECK(ChangedLine("A16.groups", [](Claim* c) {
          c->given["group_tokens"] = 4096;
        }).recomputed.value == 0);
  const AuditLine flash3 = ChangedLine("A16.flash3_on_a100");
  CHECK(flash3.verdict == Verdict::kRefuted);
  CHECK(flash3.recomputed.formula.find("E0383") != std::string::npos);
  // On Hopper it runs.
  CHECK(SharedContext().Refusal("scenarios/articles/a16-packing.json",
                                {"plan.attention=flash3", "cluster=8xh100-hgx"}) == 0);
}

TEST_CASE("resolution: the largest of the batch is what makes padding") {
  const AuditLine padding = ChangedLine("B6.padding");
  CHECK(padding.recomputed.value > 20);
  CHECK(padding.verdict == Verdict::kRefuted);
  CHECK(ChangedLine("B6.step").recomputed.value > 5);
  CHECK(ChangedLine("B6.step").verdict == Verdict::kRefuted);
}

TEST_CASE("loader: a copy is what its bytes take, and a step that is ahead does not notice") {
  const AuditLine less = ChangedLine("B18.latency");
  CHECK(less.recomputed.value > 1);
  CHECK(less.recomputed.value < 50);
  CHECK(less.verdict == Verdict::kRefuted);
  const AuditLine none = ChangedLine("B18.latency", [](Claim* c) { c->given["copies_after"] = 2; });
  CHECK(none.recomputed.value == 0);
  CHECK(ChangedLine("B18.latency", [](Claim* c) {
          c->given["copies_after"] = 0;
        }).recomputed.value == doctest::Approx(2 * less.recomputed.value));
}

}  // namespace
}  // namespace aurum
