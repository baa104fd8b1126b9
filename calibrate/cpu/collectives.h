#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// Collectives among processes of this machine, by Open MPI through shared memory. Calibration and
// execution both call these and nothing else, so what was measured is what runs.

// Floats of a buffer for `bytes` as nccl-tests counts them, rounded up so that every rank has an equal
// share. E0933 where MPI could not count them (2^31 and more).
std::size_t CollectiveFloats(CollectiveKind kind, double bytes, int ranks);

// One collective over `floats` of that rule. Gathers and sums stay in `data` (in place, as training
// frameworks do); reduce-scatter, all-to-all and send-receive write to `other`. Send-receive is
// nccl-tests': every rank to the next, a ring. Both buffers hold `floats`.
void RunCollective(CollectiveKind kind, MPI_Comm comm, std::size_t floats, float* data,
                   float* other);

// How long a collective took, from the moment all members were there.
//
// By CPU time of each member's own thread: unlike wall time it does not run on while another process
// has the core. But MPI waits by polling, so a member whose peer was preempted burns its own time too.
// The peer itself does not: so the least over the members is taken where all do the same work
// (measured on two ranks at rest: least, most and wall agree within 2 µs or 2 %). A broadcast's root
// is done before its receivers: there the most counts. The same value on all members.
double TimeCollective(CollectiveKind kind, MPI_Comm comm, std::size_t floats, float* data,
                      float* other, bool* preempted);

// Fills `data` so that the result is known, and looks whether it is: small whole numbers, whose sums
// are exact in any order. Returns what is wrong, "" if nothing.
void FillKnown(CollectiveKind kind, MPI_Comm comm, std::size_t floats, float* data, float* other);
bool HoldsKnown(CollectiveKind kind, MPI_Comm comm, std::size_t floats, const float* data,
                const float* other);

// Whether a receiver can fetch a large message by itself (process_vm_readv, "CMA") while its sender
// computes. Where containers forbid it, a message waits until its sender calls MPI again, and a
// receiver's time holds that, too.
bool SingleCopy(MPI_Comm comm);

}  // namespace aurum
