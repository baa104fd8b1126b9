#pragma once

#include <cstddef>
#include <cstdint>

// What libaurum-mpi.so, the one file that is linked with MPI, gives to the program that loads it:
// plain functions, so that the program itself starts where MPI is not installed. Errors are 0 with a
// text in `error`, which holds `error_size` bytes.
extern "C" {

struct AurumMpi {
  std::uint32_t version;                             // of this struct
  int (*open)(char* error, std::size_t error_size);  // MPI_Init_thread, once a process
  int (*rank)();
  int (*size)();
  int (*ranks_here)();  // on this machine
  // Copies the bytes and returns at once.
  void (*send)(int to, const void* bytes, std::size_t size);
  // Whether a message is there; if so, from whom and how long. The next receive() takes it.
  int (*probe)(int* from, std::size_t* size);
  void (*receive)(void* bytes);
  void (*close)();          // MPI_Finalize: waits for all other ranks to do the same
  void (*abort)(int code);  // MPI_Abort: ends all ranks
};

constexpr std::uint32_t kAurumMpiVersion = 1;
constexpr const char* kAurumMpiSymbol = "AurumMpiModule";  // const AurumMpi* (*)()

}  // extern "C"
