#pragma once

#include <memory>
#include <string>

#include "sim/spread/courier.h"

struct AurumMpi;

namespace aurum {

// How many processes a launcher of MPI has started together with this one: 1 where none has. Told by
// the environment, so it costs nothing to ask: Open MPI's mpirun, MPICH's and Intel's mpiexec, and
// srun --mpi=pmix|pmi2 all say so there.
int RanksStarted();

// MPI as a courier. Loads libaurum-mpi.so from `program_folder`, which is linked with it.
//   E0851  this build has none, it cannot be loaded, or MPI does not start
//   E0852  the launcher is of another MPI than the one that Aurum was built with: every process
//          would take itself for the only one
class MpiCourier : public Courier {
 public:
  explicit MpiCourier(const std::string& program_folder);
  MpiCourier(const MpiCourier&) = delete;
  MpiCourier& operator=(const MpiCourier&) = delete;
  ~MpiCourier() override;  // leaves MPI as it is; see Close

  int rank() const override;
  int size() const override;
  int ranks_here() const { return ranks_here_; }  // on this machine, this one too
  void Send(int to, std::string bytes) override;
  std::optional<Parcel> Receive(double seconds) override;

  // Ends MPI in order; waits for the other ranks to do the same.
  void Close();
  // Ends MPI where a rank was lost, which would be waited for for ever. Under a launcher that goes on
  // without lost ranks (mpirun --enable-recovery) the program may simply end; else all ranks end
  // here, and this process with `code`.
  void CloseWithoutAll(int code);

 private:
  const AurumMpi* mpi_ = nullptr;
  int rank_ = 0, size_ = 1, ranks_here_ = 1;
};

}  // namespace aurum
