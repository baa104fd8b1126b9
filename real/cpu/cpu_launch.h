#pragma once

#include <string>

#include "real/supervisor.h"

namespace aurum {

// "OpenBLAS 0.3.21, MPI 3.1; 2 cores of AMD EPYC", or "built without …": the line of `aurum --version`.
std::string DescribeCpuBackend();

// How to start `ranks` ranks of aurum-rank-cpu, which is in `program_folder`, on cores of this machine:
// mpirun with nothing but shared memory and the loopback device, ranks that yield when they wait, and
// OpenBLAS told its core (unless the user's environment tells it). Errors, all with exit code 7:
//   E0930 built without Open MPI or OpenBLAS, or aurum-rank-cpu is not there
//   E0931 mpirun is not there
Launch CpuLaunch(const std::string& program_folder, int ranks);

}  // namespace aurum
