#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/plan/emit.h"
#include "sim/plan/pricing.h"
#include "sim/plan/program.h"
#include "sim/plan/scenario.h"
#include "sim/plan/waves.h"

namespace aurum {

// What it takes to say where modalities meet, once every stage has emitted its ops.
struct FusionInput {
  const Scenario& scenario;
  const PlanPricer& pricer;
  const Waves& waves;
  const std::vector<std::unique_ptr<StageEmitter>>& emitters;  // by stage
  // By stage and chunk: whether modalities meet there.
  std::function<bool(std::size_t stage, std::size_t chunk)> meets;
  std::function<std::size_t(std::size_t stage)> chunks;
  // The stage and chunk whose pass hands its output to that chunk; nothing before the first.
  std::function<std::optional<std::pair<std::size_t, std::size_t>>(std::size_t stage,
                                                                   std::size_t chunk)>
      previous;
  // Rank classes of two stages that pass data to each other, one of the first and one of the second.
  std::function<std::vector<std::pair<std::uint32_t, std::uint32_t>>(std::size_t from,
                                                                     std::size_t to)>
      across;
  std::size_t first = 0;                  // of the backbone's stages
  const std::vector<int>& encoder_stage;  // by micro-batch, in bubbles: counted from `first`
};

// The fusion points of a program, by consumer class, micro-batch and chain of encoder and connector.
//
// A chain's tokens are taken by the backbone's first kernels; or, where the encoder ran elsewhere and
// its connector on the consumer, by the connector's. If such tokens are redistributed as well, the
// exchange has a point of its own, whose tokens are 0: they are counted where the encoder's arrive.
// None for towers that never join, and where no media come in.
std::vector<FusionPoint> FusionPoints(const FusionInput& input);

}  // namespace aurum
