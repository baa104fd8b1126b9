#include "sim/study/gradient_sync.h"

#include <doctest/doctest.h>

#include "sim/study/hops.h"
#include "tests/plan/space.h"

namespace aurum {
namespace {

Evaluation Replicas(const std::vector<std::string>& changes) {
  return EvaluateDocument(Document(kLayers8, "16xa100-hdr",
                                   Join({"workload.global_batch_size=16", "plan.sharding=ddp",
                                         "plan.collectives.data_parallel=ring"},
                                        changes)));
}

TEST_CASE(
    "gradients that nothing hides: the window is busy, and the links are as full as a ring makes "
    "them") {
  const Evaluation e = Replicas({"plan.overlap.gradient_reduce=false", "plan.bucket_mb=100000"});
  CHECK(e.sync.collectives == 1);
  CHECK(e.sync.window_s == e.sync.busy_s);
  CHECK(e.sync.exposed_s == doctest::Approx(e.sync.window_s).epsilon(1e-9));
  // All gradients, once.
  CHECK(e.sync.bytes == doctest::Approx(e.program.classes[0].modules[0].parameters *
                                        e.scenario.stack->gradient_exchange_bytes));
  // One rail of 25 GB/s a GPU, of which collectives reach the stack's share.
  CHECK(e.sync.wire_s == doctest::Approx(2.0 * 15 / 16 * e.sync.bytes / 25e9).epsilon(1e-6));
  CHECK(e.sync.UtilisationWhileBusy() ==
        doctest::Approx(e.scenario.stack->network_efficiency).epsilon(0.02));
}

TEST_CASE("small buckets are latency: the smaller, the emptier the links") {
  double before = 0;
  for (const char* bucket : {"1", "10", "100"}) {
    const Evaluation e = Replicas({std::string("plan.bucket_mb=") + bucket});
    CHECK(e.sync.UtilisationWhileBusy() > before);
    before = e.sync.UtilisationWhileBusy();
    CHECK(e.sync.Utilisation() <= e.sync.UtilisationWhileBusy());
  }
  // A unit's gradients are no smaller than a unit: the first two may be one.
}

TEST_CASE("overlap hides time, not bytes") {
  const Evaluation shown = Replicas({"plan.overlap.gradient_reduce=false"});
  const Evaluation hidden = Replicas({"plan.overlap.gradient_reduce=true"});
  CHECK(hidden.sync.bytes == shown.sync.bytes);
  CHECK(hidden.sync.window_s > shown.sync.window_s);  // it opens while backward runs
  CHECK(hidden.sync.exposed_s < shown.sync.exposed_s);
  CHECK(hidden.StepSeconds() < shown.StepSeconds());
}

TEST_CASE("a reduce-scatter and an all-gather are an all-reduce in two parts") {
  const Evaluation whole = Replicas({"plan.overlap.gradient_reduce=false"});
  const Evaluation parts = Replicas({"plan.overlap.gradient_reduce=false", "plan.sharding=zero1"});
  CHECK(parts.sync.wire_s == doctest::Approx(whole.sync.wire_s / 2).epsilon(1e-9));
  // The gather's ring is pipelined by name; reductions are not and stay as they are.
  const Evaluation pipelined =
      Replicas({"plan.overlap.gradient_reduce=false", "plan.sharding=zero1",
                "plan.overlap.parameter_gather=false", "plan.collectives.data_parallel=pipelined"});
  const Evaluation ring = Replicas({"plan.overlap.gradient_reduce=false", "plan.sharding=zero1",
                                    "plan.overlap.parameter_gather=false"});
  CHECK(pipelined.Time().dp_gather_s < ring.Time().dp_gather_s);
}

TEST_CASE("jitter of transfers widens the tail of a step's synchronisation") {
  const auto at = [](const char* cv) {
    return Replicas({"plan.overlap.gradient_reduce=false",
                     std::string(R"(variation={"seeds": 40, "communication_cv": )") + cv + "}"});
  };
  const Evaluation calm = at("0.05"), rough = at("0.4");
  REQUIRE(calm.varied);
  CHECK(calm.varied->sync_s.size() == 40);
  CHECK(calm.varied->SyncQuantile(0.5) <= calm.varied->SyncQuantile(0.99));
  const auto tail = [](const Evaluation& e) {
    return e.varied->SyncQuantile(0.99) / e.varied->SyncQuantile(0.5);
  };
  CHECK(tail(rough) > 1.02 * tail(calm));
}

TEST_CASE("pairs of a node by how they reach each other") {
  InputCache cache(".");
  const std::vector<int> node = {0, 1, 2, 3, 4, 5, 6, 7};
  const HopCensus switched = CountHops(*cache.GetCluster("16xa100-hdr").value, node, 2);
  CHECK(switched.pairs == 56);
  CHECK(switched.within == 0);  // GPU, NVSwitch, GPU: three devices
  CHECK(switched.gpu_links == 56);
  CHECK(switched.through_cpu == 0);
  CHECK(CountHops(*cache.GetCluster("16xa100-hdr").value, node, 3).within == 56);
  CHECK(CountHops(*cache.GetCluster("16xa100-hdr").value, {0, 8}, 99).over_network == 2);
  // Cards on PCIe: those of different sockets go through CPUs.
  const HopCensus cards = CountHops(*cache.GetCluster("8xl40s-pcie").value, node, 2);
  CHECK(cards.gpu_links == 0);
  CHECK(cards.through_cpu >= 32);
}

}  // namespace
}  // namespace aurum
