#include "calibrate/cpu/collectives.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "calibrate/cpu/core.h"
#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

struct Place {
  int rank = 0, size = 1;
};
Place PlaceIn(MPI_Comm comm) {
  Place place;
  MPI_Comm_rank(comm, &place.rank);
  MPI_Comm_size(comm, &place.size);
  return place;
}

int Count(std::size_t floats) { return static_cast<int>(floats); }

// What rank `rank` brings as element `i`: 0 … 12.
float Brings(int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 5 + i % 7) % 13);
}

// Elements that are looked at: all of a small buffer, a stride of a large one, and always its ends.
template <typename Look>
bool All(std::size_t begin, std::size_t end, Look look) {
  if (begin >= end) return true;
  const std::size_t stride = std::max<std::size_t>((end - begin) / 4096, 1);
  for (std::size_t i = begin; i < end; i += stride) {
    if (!look(i)) return false;
  }
  return look(end - 1);
}

}  // namespace

std::size_t CollectiveFloats(CollectiveKind kind, double bytes, int ranks) {
  const double share = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast ||
                               kind == CollectiveKind::kSendRecv
                           ? 1
                           : ranks;
  const double floats =
      std::max(std::ceil(bytes / static_cast<double>(sizeof(float)) / share - 1e-9), 1.0) * share;
  if (floats > static_cast<double>(std::numeric_limits<int>::max())) {
    ThrowInput(933, "a message of 8 GiB or more, which MPI cannot count",
               "more ranks to share it, or a smaller model");
  }
  return static_cast<std::size_t>(floats);
}

void RunCollective(CollectiveKind kind, MPI_Comm comm, std::size_t floats, float* data,
                   float* other) {
  const Place me = PlaceIn(comm);
  const int share = Count(floats / static_cast<std::size_t>(me.size));
  switch (kind) {
    case CollectiveKind::kAllReduce:
      MPI_Allreduce(MPI_IN_PLACE, data, Count(floats), MPI_FLOAT, MPI_SUM, comm);
      return;
    case CollectiveKind::kAllGather:
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, share, MPI_FLOAT, comm);
      return;
    case CollectiveKind::kReduceScatter:
      MPI_Reduce_scatter_block(data, other, share, MPI_FLOAT, MPI_SUM, comm);
      return;
    case CollectiveKind::kAllToAll:
      MPI_Alltoall(data, share, MPI_FLOAT, other, share, MPI_FLOAT, comm);
      return;
    case CollectiveKind::kBroadcast:
      MPI_Bcast(data, Count(floats), MPI_FLOAT, 0, comm);
      return;
    case CollectiveKind::kSendRecv:
      MPI_Sendrecv(data, Count(floats), MPI_FLOAT, (me.rank + 1) % me.size, 0, other, Count(floats),
                   MPI_FLOAT, (me.rank + me.size - 1) % me.size, 0, comm, MPI_STATUS_IGNORE);
      return;
  }
}

double TimeCollective(CollectiveKind kind, MPI_Comm comm, std::size_t floats, float* data,
                      float* other, bool* preempted) {
  const std::int64_t switches = InvoluntarySwitches();
  const double begin = ThreadCpuSeconds();
  RunCollective(kind, comm, floats, data, other);
  const double mine = ThreadCpuSeconds() - begin;
  const bool lost = Disturbed(InvoluntarySwitches() - switches, mine);
  std::array<double, 3> told = {mine, -mine, lost ? 1.0 : 0.0};
  MPI_Allreduce(MPI_IN_PLACE, told.data(), 3, MPI_DOUBLE, MPI_MAX, comm);
  if (preempted != nullptr) *preempted = told[2] > 0;
  return kind == CollectiveKind::kBroadcast ? told[0] : -told[1];
}

void FillKnown(CollectiveKind kind, MPI_Comm comm, std::size_t floats, float* data, float* other) {
  const Place me = PlaceIn(comm);
  for (std::size_t i = 0; i < floats; ++i) data[i] = Brings(me.rank, i);
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
      kind == CollectiveKind::kBroadcast) {
    return;
  }
  std::fill_n(other, floats, -1.0F);
}

bool HoldsKnown(CollectiveKind kind, MPI_Comm comm, std::size_t floats, const float* data,
                const float* other) {
  const Place me = PlaceIn(comm);
  const std::size_t share = floats / static_cast<std::size_t>(me.size);
  const auto sum = [&](std::size_t i) {
    float total = 0;
    for (int rank = 0; rank < me.size; ++rank) total += Brings(rank, i);
    return total;
  };
  const std::size_t mine = share * static_cast<std::size_t>(me.rank);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return All(0, floats, [&](std::size_t i) { return data[i] == sum(i); });
    case CollectiveKind::kAllGather:
      return All(0, share * static_cast<std::size_t>(me.size),
                 [&](std::size_t i) { return data[i] == Brings(static_cast<int>(i / share), i); });
    case CollectiveKind::kReduceScatter:
      return All(0, share, [&](std::size_t i) { return other[i] == sum(mine + i); });
    case CollectiveKind::kAllToAll:
      return All(0, share * static_cast<std::size_t>(me.size), [&](std::size_t i) {
        return other[i] == Brings(static_cast<int>(i / share), mine + i % share);
      });
    case CollectiveKind::kBroadcast:
      return All(0, floats, [&](std::size_t i) { return data[i] == Brings(0, i); });
    case CollectiveKind::kSendRecv:
      return All(0, floats, [&](std::size_t i) {
        return other[i] == Brings((me.rank + me.size - 1) % me.size, i);
      });
  }
  return false;
}

bool SingleCopy(MPI_Comm comm) {
  const Place me = PlaceIn(comm);
  if (me.size < 2) return true;
  // The next rank's word, read out of its memory.
  const std::uint64_t word = 0x41557255ULL + static_cast<std::uint64_t>(me.rank);
  std::array<std::uint64_t, 2> own = {static_cast<std::uint64_t>(getpid()),
                                      reinterpret_cast<std::uint64_t>(&word)};
  std::array<std::uint64_t, 2> next{};
  MPI_Sendrecv(own.data(), 2, MPI_UINT64_T, (me.rank + me.size - 1) % me.size, 1, next.data(), 2,
               MPI_UINT64_T, (me.rank + 1) % me.size, 1, comm, MPI_STATUS_IGNORE);
  std::uint64_t read = 0;
  iovec here{&read, sizeof read};
  iovec there{reinterpret_cast<void*>(next[1]), sizeof read};  // NOLINT(performance-no-int-to-ptr)
  int works = process_vm_readv(static_cast<pid_t>(next[0]), &here, 1, &there, 1, 0) ==
              static_cast<ssize_t>(sizeof read);
  // The words live until all have read.
  MPI_Allreduce(MPI_IN_PLACE, &works, 1, MPI_INT, MPI_MIN, comm);
  return works != 0;
}

}  // namespace aurum
