#pragma once

#include <functional>
#include <string>

#include "calibrate/cuda/api.h"

namespace aurum::cuda {

// NCCL calls do not block here: each may have only begun when it returns. Waits until `comm` is
// ready again. E0947 where the communicator failed, E0948 after `timeout_s` or as soon as `stopped`
// says yes.
void Settle(Api* api, Comm comm, const std::string& doing, double timeout_s,
            const std::function<bool()>& stopped = nullptr);

// Of one rank's part in a collective of `bytes` as nccl-tests counts them, in elements.
struct CollectiveSizes {
  std::size_t count = 0;   // that each rank sends (all-gather) or receives (reduce-scatter), that
                           // all hold (all-reduce, broadcast), that goes to each (all-to-all)
  std::size_t buffer = 0;  // bytes of the larger buffer
};
CollectiveSizes SizesOf(CollectiveKind kind, int ranks, double bytes, Element element);

// Enqueues one collective of `rank` among `ranks`. Of kSendRecv: from rank 0 to 1, 2 to 3, … `from`
// and `to` hold SizesOf().buffer bytes each.
Result EnqueueCollective(Api* api, CollectiveKind kind, int rank, int ranks, double bytes,
                         Element element, void* from, void* to, Comm comm, Stream stream);

}  // namespace aurum::cuda
