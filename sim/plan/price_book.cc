#include "sim/plan/price_book.h"

#include "sim/core/hash.h"

namespace aurum {
namespace {

constexpr std::size_t kMostNumbers = 64;
constexpr std::size_t kMostPrices = 100'000;  // of a page: 25 MB; then it begins anew

}  // namespace

std::size_t PriceBook::HashOf::operator()(const Key& key) const {
  return HashBytes(key.data(), sizeof key).low;
}

std::optional<std::uint64_t> PriceBook::NumberOf(const std::shared_ptr<const Cluster>& cluster,
                                                 const std::shared_ptr<const Profile>& profile) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].first == cluster && known_[i].second == profile) return i;
  }
  if (known_.size() == kMostNumbers) return std::nullopt;
  known_.emplace_back(cluster, profile);
  return known_.size() - 1;
}

AlikePrice PriceBook::Get(const Key& key, const std::function<AlikePrice()>& price) {
  Page& page = pages_[HashOf{}(key) % pages_.size()];
  {
    const std::lock_guard lock(page.mutex);
    if (const auto found = page.prices.find(key); found != page.prices.end()) return found->second;
  }
  const AlikePrice made = price();
  const std::lock_guard lock(page.mutex);
  if (page.prices.size() >= kMostPrices) page.prices.clear();
  page.prices.emplace(key, made);
  return made;
}

}  // namespace aurum
