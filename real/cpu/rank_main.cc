// aurum-rank-cpu FOLDER: one rank of a job on a core, started by mpirun on aurum's behalf.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "calibrate/cpu/core.h"
#include "calibrate/cpu/cpu_bench.h"
#include "calibrate/measure.h"
#include "real/cpu/cpu_backend.h"
#include "real/job_folder.h"
#include "real/worker.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

// Before MPI is there, its launcher tells by the environment.
int RankByEnvironment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return std::atoi(value);
  }
  return 0;
}

// Every rank takes the same measurements in lockstep; rank 0's count.
void Calibrate(const std::string& folder, const Job& job, Progress* progress) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const MeasurementPlan plan =
      ReadMeasurementPlan(ParseJson(job.options.Dump(2), "the job's measurements"));
  CpuBench bench(MPI_COMM_WORLD, job.seed + static_cast<std::uint64_t>(rank));
  std::int64_t asked = 0;
  MeasureHooks hooks;
  hooks.clock = [&] {
    progress->At(asked++, 0);
    double now = WallSeconds();
    MPI_Bcast(&now, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return now;
  };
  const Measurements measured = Measure(&bench, plan, hooks);
  if (rank == 0) {
    WriteTextFile(MeasurementsFile(folder), WriteMeasurements(measured).Dump(1) + "\n");
  }
}

int Run(const std::string& folder, int* argc, char*** argv) {
  MPI_Init(argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string job_file = JobFile(folder);
  int code = 0;
  bool calibrates = false;
  try {
    const Job job = ReadJob(ReadJsonFile(job_file));
    calibrates = job.what == "calibrate";
  } catch (const InputError&) {
    // The worker says what is wrong with it.
  }
  if (calibrates) {
    code = RunWorkerBody(folder, rank, [&](const Job& job, const Rendezvous&, Progress* progress) {
      Calibrate(folder, job, progress);
    });
  } else {
    code = RunWorker(folder, rank, [](const Job& job, const Rendezvous&) {
      return MakeCpuBackend(MPI_COMM_WORLD, job.seed);
    });
  }
  // After a failure the others may never come to a common end.
  if (code == 0) MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace aurum

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("aurum-rank-cpu FOLDER: one rank of a job; aurum starts it\n", stderr);
    return static_cast<int>(aurum::ExitCode::kUsage);
  }
  const std::string folder = argv[1];
  return aurum::RunWatched(folder, aurum::RankByEnvironment(),
                           [&] { return aurum::Run(folder, &argc, &argv); });
}
