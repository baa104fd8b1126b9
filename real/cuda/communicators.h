#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/cuda/api.h"
#include "real/rank_program.h"
#include "real/worker.h"

namespace aurum {

// Ranks that get a communicator: members of a group, or a sender and its receiver on one lane.
// Messages have one for each direction, so that a rank that sends and receives at once never waits
// for itself.
struct CommunicatorKey {
  std::vector<int> ranks;
  int lane = -1;  // of messages
  auto operator<=>(const CommunicatorKey&) const = default;
};

// What a rank's program needs, sorted.
std::vector<CommunicatorKey> CommunicatorsOf(const RankProgram& mine);

// The splits that make all of them: in each round every rank is in at most one. The same on every
// rank that is given the same keys, in whatever order.
std::vector<std::vector<CommunicatorKey>> SplitRounds(std::vector<CommunicatorKey> keys);

std::string CommunicatorsText(const std::vector<CommunicatorKey>& keys);
std::vector<CommunicatorKey> ReadCommunicators(const std::string& text);

// All communicators of one rank. Every rank of the job calls this at the same time.
class Communicators {
 public:
  Communicators() = default;
  void Make(cuda::Api* api, const RankProgram& mine, const Rendezvous& rendezvous, double timeout_s,
            const std::function<bool()>& stopped);
  cuda::Comm world() const { return world_.get(); }
  cuda::Comm At(const CommunicatorKey& key) const { return made_.at(key).get(); }
  // The first error of any of them.
  cuda::Result State(cuda::Api* api) const;
  // Ends what is under way; nothing is usable afterwards.
  void Abort(cuda::Api* api);

 private:
  cuda::OwnedComm world_;
  std::map<CommunicatorKey, cuda::OwnedComm> made_;
};

}  // namespace aurum
