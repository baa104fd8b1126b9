#include "real/cpu/cpu_launch.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "calibrate/cpu/core.h"

namespace aurum {
namespace {

#ifdef AURUM_CPU_BACKEND
constexpr const char* kBackend = AURUM_CPU_BACKEND;
constexpr const char* kBuiltWith = AURUM_MPIEXEC;
#else
constexpr const char* kBackend = "";
constexpr const char* kBuiltWith = "";
#endif

bool CanRun(const std::string& file) { return access(file.c_str(), X_OK) == 0; }

// The launcher of the library that this was built with, or, on another machine, the first in PATH.
std::string Mpirun() {
  if (*kBuiltWith != '\0' && CanRun(kBuiltWith)) return kBuiltWith;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"/mpirun", "/mpiexec"}) {
      if (!folder.empty() && CanRun(folder + name)) return folder + name;
    }
  }
  return "";
}

}  // namespace

std::string DescribeCpuBackend() {
  if (*kBackend == '\0') return "built without Open MPI and OpenBLAS";
  const CoreFacts core = ThisCore();
  return std::string(kBackend) + "; " + std::to_string(core.cores) +
         (core.cores == 1 ? " core of " : " cores of ") +
         (core.model.empty() ? "an unnamed processor" : core.model);
}

Launch CpuLaunch(const std::string& program_folder, int ranks) {
  const std::string program = program_folder + "/aurum-rank-cpu";
  if (*kBackend == '\0' || !CanRun(program)) {
    ThrowInput(930,
               *kBackend == '\0' ? "this program was built without Open MPI and OpenBLAS, on which "
                                   "the backend cpu runs"
                                 : "the program that runs a rank is not there: '" + program + "'",
               *kBackend == '\0' ? "./dev setup installs them; then ./dev build"
                                 : "./dev build makes it beside aurum; keep both in one folder",
               ExitCode::kNoHardware);
  }
  const std::string mpirun = Mpirun();
  if (mpirun.empty()) {
    ThrowInput(931, "Open MPI's mpirun is not there, which starts the ranks of the backend cpu",
               "./dev setup installs it (Debian: openmpi-bin)", ExitCode::kNoHardware);
  }
  Launch launch;
  launch.per_rank = false;
  launch.command = {mpirun, "-n", std::to_string(ranks), program, "{folder}"};
  const auto set = [&](const char* name, const char* value) {
    launch.environment.emplace_back(name, value);
  };
  // Options of Open MPI as its environment spells them: an mpirun of another MPI ignores them.
  set("OMPI_ALLOW_RUN_AS_ROOT", "1");  // both are asked for
  set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  // More ranks than cores are no error: the clocks that count are logical.
  set("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set("OMPI_MCA_hwloc_base_binding_policy", "none");
  // Who waits gives its core away; otherwise a waiting rank starves the one that it waits for.
  set("OMPI_MCA_mpi_yield_when_idle", "1");
  // Shared memory alone; no remote shell is looked for, no other interface listened on.
  set("OMPI_MCA_btl", "self,vader");
  set("OMPI_MCA_pml", "ob1");
  set("OMPI_MCA_plm", "isolated");
  set("OMPI_MCA_oob_tcp_if_include", "lo");
  set("OMPI_MCA_coll", "^hcoll,cuda");
  // Everything that it puts anywhere, into the job's folder, which is removed whole.
  set("OMPI_MCA_orte_tmpdir_base", "{folder}");
  set("OMPI_MCA_btl_vader_backing_directory", "{folder}");
  set("OMPI_MCA_shmem_mmap_backing_file_base_dir", "{folder}");
  set("OMPI_MCA_orte_base_help_aggregate", "0");
  set("OPENBLAS_NUM_THREADS", "1");
  set("OMP_NUM_THREADS", "1");
  const std::string core = BlasCoreType();
  if (std::getenv("OPENBLAS_CORETYPE") == nullptr && !core.empty()) {
    set("OPENBLAS_CORETYPE", core.c_str());
  }
  return launch;
}

}  // namespace aurum
