#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/core/provenance.h"
#include "sim/cost/profile.h"
#include "topologies/cluster.h"

namespace aurum {

// What all groups of one communication take, run at once. `alike`: each the same; else `seconds` and
// `latency_s` are the first's and of no use.
struct AlikePrice {
  bool alike = false;
  double seconds = 0, latency_s = 0;
  Provenance provenance = Provenance::kMeasured;
};

// Prices that the plans of a search have in common: a collective over the same GPUs with the same bytes
// takes the same, whatever else a plan does. Shared by threads; a price is the same whoever asked for it
// first, so that what is found does not depend on their number.
class PriceBook {
 public:
  // All that a price depends on.
  using Key = std::array<std::uint64_t, 24>;

  // A number for a key: the same for the same objects, which live as long as the book does. Nothing where
  // there are too many of them to remember: what-ifs on links make a cluster for every plan.
  std::optional<std::uint64_t> NumberOf(const std::shared_ptr<const Cluster>& cluster,
                                        const std::shared_ptr<const Profile>& profile);
  // O(1); `price` is called where the key is not known, perhaps by several threads at once.
  AlikePrice Get(const Key& key, const std::function<AlikePrice()>& price);

 private:
  struct HashOf {
    std::size_t operator()(const Key& key) const;
  };
  struct Page {
    std::mutex mutex;
    std::unordered_map<Key, AlikePrice, HashOf> prices;
  };
  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<const Cluster>, std::shared_ptr<const Profile>>> known_;
  std::array<Page, 16> pages_;
};

}  // namespace aurum
