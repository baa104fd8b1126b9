#include "sim/spread/mpi_module.h"

#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <list>
#include <vector>

// Of MPI this uses what every version since 3.0 has: point-to-point messages that do not block, and
// matched probes. Errors of a message are returned, not fatal: a send to a rank that is gone must
// not end the others.
namespace {

constexpr int kTag = 1;

struct Outgoing {
  std::vector<char> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

MPI_Comm g_comm = MPI_COMM_NULL;
MPI_Message g_message = MPI_MESSAGE_NULL;
int g_message_size = 0;
std::list<Outgoing> g_outgoing;

int Open(char* error, std::size_t error_size) {
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) {
    std::snprintf(error, error_size, "MPI has been started already");
    return 0;
  }
  int provided = 0;
  // The thread that manages is not the one that starts and ends MPI.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    std::snprintf(error, error_size, "MPI_Init_thread failed");
    return 0;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    std::snprintf(error, error_size,
                  "this MPI has been built without threads (MPI_THREAD_SERIALIZED)");
    return 0;
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &g_comm);
  MPI_Comm_set_errhandler(g_comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return 1;
}

int Rank() {
  int rank = 0;
  MPI_Comm_rank(g_comm, &rank);
  return rank;
}

int Size() {
  int size = 1;
  MPI_Comm_size(g_comm, &size);
  return size;
}

int RanksHere() {
  MPI_Comm here = MPI_COMM_NULL;
  int ranks = 1;
  if (MPI_Comm_split_type(g_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) != MPI_SUCCESS)
    return 1;
  MPI_Comm_size(here, &ranks);
  MPI_Comm_free(&here);
  return ranks;
}

void FreeSent() {
  for (auto at = g_outgoing.begin(); at != g_outgoing.end();) {
    int done = 0;
    const int code = MPI_Test(&at->request, &done, MPI_STATUS_IGNORE);
    at = done != 0 || code != MPI_SUCCESS ? g_outgoing.erase(at) : std::next(at);
  }
}

void Send(int to, const void* bytes, std::size_t size) {
  FreeSent();
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) return;  // never so long
  Outgoing& out = g_outgoing.emplace_back();
  const char* first = static_cast<const char*>(bytes);
  out.bytes.assign(first, first + size);
  if (MPI_Isend(out.bytes.data(), static_cast<int>(size), MPI_BYTE, to, kTag, g_comm,
                &out.request) != MPI_SUCCESS)
    g_outgoing.pop_back();  // to a rank that is gone
}

int Probe(int* from, std::size_t* size) {
  FreeSent();
  int found = 0;
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, kTag, g_comm, &found, &g_message, &status) != MPI_SUCCESS ||
      found == 0)
    return 0;
  MPI_Get_count(&status, MPI_BYTE, &g_message_size);
  *from = status.MPI_SOURCE;
  *size = static_cast<std::size_t>(g_message_size);
  return 1;
}

void Receive(void* bytes) {
  MPI_Mrecv(bytes, g_message_size, MPI_BYTE, &g_message, MPI_STATUS_IGNORE);
}

void Close() {
  // What is still on its way is for ranks that no longer read; MPI_Finalize would wait for it.
  for (Outgoing& out : g_outgoing) MPI_Request_free(&out.request);
  MPI_Comm_free(&g_comm);
  MPI_Finalize();
}

void Abort(int code) { MPI_Abort(g_comm, code); }

constexpr AurumMpi kModule = {kAurumMpiVersion, Open,  Rank, Size, RanksHere, Send, Probe,
                              Receive,          Close, Abort};

}  // namespace

extern "C" __attribute__((visibility("default"))) const AurumMpi* AurumMpiModule() {
  return &kModule;
}
