#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/core/provenance.h"
#include "sim/cost/kernel.h"

namespace aurum {

// Kernels that were measured in exactly the sizes that a plan has: what they took, looked up before
// any model is asked. A model of few numbers misses single shapes by tens of percent where a library
// chooses badly; the shapes of one plan are few (mostly under 40), so they can all be measured.
//
// Two kernels are the same if all of their sizes are, rounded up to whole ones, as they are run.
class ExactKernels {
 public:
  struct Entry {
    Kernel kernel;       // rounded up
    double seconds = 0;  // of one burst call: the median
    double spread = 0;   // half of the distance between the quartiles, over the median
    int samples = 0;
  };
  ExactKernels() = default;
  // Entries in any order, no two of one kernel (assert).
  ExactKernels(std::vector<Entry> entries, Provenance provenance, std::string source);

  // nullptr where it was not measured. About 50 ns.
  const Entry* Find(const Kernel& kernel) const;

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of SortKey
  Provenance provenance() const { return provenance_; }
  const std::string& source() const { return source_; }
  bool empty() const { return entries_.empty(); }

 private:
  struct Key {
    Kernel kernel;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashOf {
    std::size_t operator()(const Key& key) const;
  };
  static Key KeyOf(const Kernel& kernel);

  std::vector<Entry> entries_;
  std::unordered_map<Key, std::size_t, HashOf> index_;
  Provenance provenance_ = Provenance::kMeasured;
  std::string source_;
};

// The kernel with whole sizes and without what is no size of it.
Kernel ExactKey(const Kernel& kernel);

}  // namespace aurum
