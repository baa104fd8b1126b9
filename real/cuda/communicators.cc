#include "real/cuda/communicators.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "calibrate/cuda/nccl_group.h"
#include "sim/core/diagnostic.h"

namespace aurum {

std::vector<CommunicatorKey> CommunicatorsOf(const RankProgram& mine) {
  std::set<CommunicatorKey> keys;
  for (const RankOp& op : mine.ops) {
    const auto lane = static_cast<int>(mine.queues[op.queue].lane);
    if (op.kind == RankOpKind::kCollective) keys.insert({mine.groups[op.group].ranks, -1});
    if (op.kind == RankOpKind::kSend) {
      for (const int peer : op.peers) keys.insert({{mine.rank, peer}, lane});
    }
    if (op.kind == RankOpKind::kReceive) keys.insert({{op.peers[0], mine.rank}, lane});
  }
  return {keys.begin(), keys.end()};
}

std::vector<std::vector<CommunicatorKey>> SplitRounds(std::vector<CommunicatorKey> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<std::vector<CommunicatorKey>> rounds;
  std::vector<std::set<int>> taken;
  for (CommunicatorKey& key : keys) {
    std::size_t round = 0;
    const auto meets = [&](const std::set<int>& ranks) {
      return std::any_of(key.ranks.begin(), key.ranks.end(),
                         [&](int rank) { return ranks.contains(rank); });
    };
    while (round < rounds.size() && meets(taken[round])) ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back();
    }
    taken[round].insert(key.ranks.begin(), key.ranks.end());
    rounds[round].push_back(std::move(key));
  }
  return rounds;
}

std::string CommunicatorsText(const std::vector<CommunicatorKey>& keys) {
  std::string text;
  for (const CommunicatorKey& key : keys) {
    text += std::to_string(key.lane);
    for (const int rank : key.ranks) text += " " + std::to_string(rank);
    text += "\n";
  }
  return text;
}

std::vector<CommunicatorKey> ReadCommunicators(const std::string& text) {
  std::vector<CommunicatorKey> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    CommunicatorKey key;
    words >> key.lane;
    for (int rank = 0; words >> rank;) key.ranks.push_back(rank);
    if (key.ranks.size() >= 2) keys.push_back(std::move(key));
  }
  return keys;
}

void Communicators::Make(cuda::Api* api, const RankProgram& mine, const Rendezvous& rendezvous,
                         double timeout_s, const std::function<bool()>& stopped) {
  const auto begun = [&](const cuda::Result& result, const std::string& doing) {
    if (result.code != cuda::kInProgress) cuda::Check(api, result, doing);
  };
  cuda::NcclId id;
  if (mine.rank == 0) {
    cuda::Check(api, api->NcclUniqueId(&id), "meeting the other ranks");
    rendezvous.Put("nccl-id", std::string_view(id.bytes, sizeof id.bytes));
  } else {
    const std::string told = rendezvous.Get("nccl-id", timeout_s);
    std::copy_n(told.begin(), std::min(told.size(), sizeof id.bytes), id.bytes);
  }
  const std::string who = "meeting the other ranks (rank " + std::to_string(mine.rank) + ")";
  cuda::Comm world = nullptr;
  begun(api->CommInit(mine.ranks, id, mine.rank, &world), who);
  world_ = cuda::OwnedComm(api, world);
  cuda::Settle(api, world, who, timeout_s, stopped);

  // Splitting is a collective of all ranks, and no rank knows the others' groups: they tell each
  // other, and derive the same rounds.
  rendezvous.Put("nccl-groups-" + std::to_string(mine.rank),
                 CommunicatorsText(CommunicatorsOf(mine)));
  std::vector<CommunicatorKey> keys;
  for (int rank = 0; rank < mine.ranks; ++rank) {
    const std::string text = rendezvous.Get("nccl-groups-" + std::to_string(rank), timeout_s);
    for (CommunicatorKey& key : ReadCommunicators(text)) keys.push_back(std::move(key));
  }
  for (const std::vector<CommunicatorKey>& round : SplitRounds(std::move(keys))) {
    int color = cuda::kNoColor, place = 0;
    for (std::size_t i = 0; i < round.size(); ++i) {
      const auto found = std::find(round[i].ranks.begin(), round[i].ranks.end(), mine.rank);
      if (found == round[i].ranks.end()) continue;
      color = static_cast<int>(i);
      place = static_cast<int>(found - round[i].ranks.begin());
    }
    cuda::Comm comm = nullptr;
    const cuda::Result split = api->CommSplit(world, color, place, &comm);
    cuda::OwnedComm owned(api, comm);
    begun(split, "splitting communicators");
    cuda::Settle(api, world, "splitting communicators", timeout_s, stopped);
    if (color == cuda::kNoColor) continue;
    if (comm == nullptr) {
      ThrowInput(947, "NCCL made no communicator for rank " + std::to_string(mine.rank),
                 "NCCL_DEBUG=WARN tells more");
    }
    cuda::Settle(api, comm, "splitting communicators", timeout_s, stopped);
    made_.emplace(round[static_cast<std::size_t>(color)], std::move(owned));
  }
}

cuda::Result Communicators::State(cuda::Api* api) const {
  for (const auto& [key, comm] : made_) {
    cuda::Result state = api->CommState(comm.get());
    if (!state.ok() && state.code != cuda::kInProgress) return state;
  }
  if (world_.get() == nullptr) return {};
  cuda::Result state = api->CommState(world_.get());
  return state.code == cuda::kInProgress ? cuda::Result{} : state;
}

void Communicators::Abort(cuda::Api* api) {
  for (auto& [key, comm] : made_) {
    if (void* handle = comm.release(); handle != nullptr) api->CommAbort(handle);
  }
  if (void* handle = world_.release(); handle != nullptr) api->CommAbort(handle);
}

}  // namespace aurum
