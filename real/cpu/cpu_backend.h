#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "real/rank_backend.h"

namespace aurum {

// A rank on a core of this machine: OpenBLAS for products, Open MPI for messages, thread CPU time for a
// clock. `comm` has the plan's ranks in order; of a rank alone, one. E0932 a kernel that a core does not
// have,
// E0933 a message that MPI cannot count.
std::unique_ptr<RankBackend> MakeCpuBackend(MPI_Comm comm, std::uint64_t seed);

}  // namespace aurum
