#pragma once

#include <optional>
#include <string>

namespace aurum {

struct Parcel {
  int from = 0;
  std::string bytes;
};

// Carries messages between the processes ("ranks", from 0) of one run. MPI is one (mpi_courier.h);
// tests have another, which loses ranks when it is told to.
//
// One thread at a time may use a courier.
class Courier {
 public:
  virtual ~Courier() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns at once. What one rank sends to another arrives in the order in which it was sent; what
  // is sent to a rank that is gone is lost without a word.
  virtual void Send(int to, std::string bytes) = 0;
  // The next message, waiting for it up to `seconds`.
  virtual std::optional<Parcel> Receive(double seconds) = 0;
};

}  // namespace aurum
