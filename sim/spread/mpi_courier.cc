#include "sim/spread/mpi_courier.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "sim/core/diagnostic.h"
#include "sim/spread/mpi_module.h"

namespace aurum {
namespace {

constexpr const char* kShards =
    "without MPI: aurum sweep --shard i/n in each process, then aurum merge";

}  // namespace

int RanksStarted() {
  // Open MPI, MPICH and Intel, Slurm's PMI2. PMIx tells the rank only, but srun its tasks too.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* text = std::getenv(name)) return std::max(1, std::atoi(text));
  }
  const char* tasks = std::getenv("SLURM_NTASKS");
  if (std::getenv("PMIX_RANK") != nullptr && tasks != nullptr) return std::max(1, std::atoi(tasks));
  return 1;
}

MpiCourier::MpiCourier(const std::string& program_folder) {
  const std::string path = program_folder + "/libaurum-mpi.so";
  if (::access(path.c_str(), F_OK) != 0) {
    ThrowInput(851,
               "this is one of " + std::to_string(RanksStarted()) +
                   " processes of MPI, but Aurum was built without MPI: there is no '" + path + "'",
               "install Open MPI (libopenmpi-dev) and build again; or " + std::string(kShards),
               ExitCode::kNoHardware);
  }
  // Globally: the parts of Open MPI that it loads itself look for its symbols there.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    ThrowInput(851, "cannot load MPI: " + std::string(why != nullptr ? why : path),
               "install the MPI that Aurum was built with; or " + std::string(kShards),
               ExitCode::kNoHardware);
  }
  using Module = const AurumMpi* (*)();
  const auto module = reinterpret_cast<Module>(::dlsym(library, kAurumMpiSymbol));
  mpi_ = module != nullptr ? module() : nullptr;
  if (mpi_ == nullptr || mpi_->version != kAurumMpiVersion) {
    ThrowInput(851, "'" + path + "' is of another version of Aurum", "build both together",
               ExitCode::kNoHardware);
  }
  std::array<char, 256> error = {};
  if (mpi_->open(error.data(), error.size()) == 0)
    ThrowInput(851, "MPI does not start: " + std::string(error.data()), kShards,
               ExitCode::kNoHardware);
  rank_ = mpi_->rank();
  size_ = mpi_->size();
  ranks_here_ = mpi_->ranks_here();
  if (size_ == 1 && RanksStarted() > 1) {
    ThrowInput(852,
               "the launcher has started " + std::to_string(RanksStarted()) +
                   " processes, but MPI here knows of one: it is another MPI than the launcher's",
               "mpirun of the MPI that Aurum was built with (Open MPI); under Slurm srun "
               "--mpi=pmix; or " +
                   std::string(kShards),
               ExitCode::kUsage);
  }
}

MpiCourier::~MpiCourier() = default;

int MpiCourier::rank() const { return rank_; }
int MpiCourier::size() const { return size_; }

void MpiCourier::Send(int to, std::string bytes) { mpi_->send(to, bytes.data(), bytes.size()); }

std::optional<Parcel> MpiCourier::Receive(double seconds) {
  // Waiting inside of MPI would take a core from those that evaluate.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::chrono::microseconds pause{50};
  for (;;) {
    Parcel parcel;
    std::size_t size = 0;
    if (mpi_->probe(&parcel.from, &size) != 0) {
      parcel.bytes.resize(size);
      mpi_->receive(parcel.bytes.data());
      return parcel;
    }
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds{1000});
  }
}

void MpiCourier::Close() { mpi_->close(); }

void MpiCourier::CloseWithoutAll(int code) {
  const char* recovery = std::getenv("OMPI_MCA_orte_enable_recovery");
  const std::string_view text = recovery != nullptr ? recovery : "";
  if (text == "1" || text == "true" || text == "yes") return;
  mpi_->abort(code);
}

}  // namespace aurum
