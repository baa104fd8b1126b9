#include "calibrate/cuda/nccl_group.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "calibrate/cuda/gemm_layout.h"
#include "sim/core/diagnostic.h"

namespace aurum::cuda {
namespace {

double BytesOf(Element element) {
  return element == Element::kFp32 ? 4 : element == Element::kByte ? 1 : 2;
}

}  // namespace

void Settle(Api* api, Comm comm, const std::string& doing, double timeout_s,
            const std::function<bool()>& stopped) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (long polls = 0;; ++polls) {
    const Result state = api->CommState(comm);
    if (state.ok()) return;
    if (state.code != kInProgress) Check(api, state, doing);
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    const bool told = stopped && stopped();
    if (told || waited > timeout_s) {
      api->Abandon();  // whoever owns communicators aborts them
      ThrowInput(948,
                 doing + (told ? ": given up, because another rank has stopped"
                               : ": NCCL has not answered for " + std::to_string(timeout_s) + " s"),
                 "NCCL_DEBUG=INFO tells which rank is missing");
    }
    if (polls > 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

CollectiveSizes SizesOf(CollectiveKind kind, int ranks, double bytes, Element element) {
  CollectiveSizes sizes;
  const double size = BytesOf(element);
  const double elements = std::max(1.0, std::ceil(bytes / size));
  const bool shared = kind == CollectiveKind::kAllGather ||
                      kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
  const double each = shared ? std::ceil(elements / ranks) : elements;
  sizes.count = static_cast<std::size_t>(each);
  sizes.buffer = static_cast<std::size_t>(each * size * (shared ? ranks : 1));
  return sizes;
}

Result EnqueueCollective(Api* api, CollectiveKind kind, int rank, int ranks, double bytes,
                         Element element, void* from, void* to, Comm comm, Stream stream) {
  const CollectiveSizes sizes = SizesOf(kind, ranks, bytes, element);
  const auto part = static_cast<std::size_t>(static_cast<double>(sizes.count) * BytesOf(element));
  // A call that has begun is no failure; what becomes of it, CommState tells.
  const auto begun = [](Result result) {
    return result.code == kInProgress ? Result{} : std::move(result);
  };
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return begun(api->AllReduce(from, sizes.count, element, comm, stream));
    case CollectiveKind::kAllGather:
      return begun(api->AllGather(from, to, sizes.count, element, comm, stream));
    case CollectiveKind::kReduceScatter:
      return begun(api->ReduceScatter(from, to, sizes.count, element, comm, stream));
    case CollectiveKind::kBroadcast:
      return begun(api->Broadcast(from, sizes.count, element, 0, comm, stream));
    case CollectiveKind::kAllToAll: {
      Result result = begun(api->GroupStart());
      for (int peer = 0; peer < ranks && result.ok(); ++peer) {
        const auto at = part * static_cast<std::size_t>(peer);
        result = begun(api->Send(static_cast<char*>(from) + at, part, peer, comm, stream));
        if (result.ok()) {
          result = begun(api->Receive(static_cast<char*>(to) + at, part, peer, comm, stream));
        }
      }
      // A group that was begun is ended, also after a failure: the next call would fall into it.
      Result ended = begun(api->GroupEnd());
      return result.ok() ? ended : result;
    }
    case CollectiveKind::kSendRecv:
      if (rank % 2 == 0) {
        return rank + 1 < ranks ? begun(api->Send(from, part, rank + 1, comm, stream)) : Result{};
      }
      return begun(api->Receive(to, part, rank - 1, comm, stream));
  }
  return {};
}

}  // namespace aurum::cuda
