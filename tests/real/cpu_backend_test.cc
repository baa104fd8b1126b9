// Two ranks of MPI run small programs made by hand: `mpirun -n 2`.
#define DOCTEST_CONFIG_IMPLEMENT
#include "real/cpu/cpu_backend.h"

#include <doctest/doctest.h>
#include <mpi.h>

#include <vector>

#include "calibrate/cpu/collectives.h"
#include "calibrate/cpu/cpu_bench.h"

namespace aurum {
namespace {

int Rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

class NoProgress : public Progress {
 public:
  void At(std::int64_t, std::size_t) override {}
  bool Stopped() const override { return false; }
};

OpId AddOp(Program* program, OpKind kind) {
  OpInfo info;
  info.kind = kind;
  program->info.push_back(info);
  return static_cast<OpId>(program->info.size() - 1);
}

RankOp Op(RankOpKind kind, OpId op, std::uint32_t queue) {
  RankOp out;
  out.kind = kind;
  out.op = op;
  out.queue = queue;
  return out;
}

// Rank 0 works 4 ms of CPU, sends; rank 1 works 1 ms, receives, works 1 ms, sends back; rank 0 waits.
struct PingPong {
  Program program;
  RankProgram mine;
  PingPong() {
    Kernel host;
    host.kind = KernelKind::kHost;
    host.host_s = 1e-3;
    program.kernels = {{host}};
    const OpId work = AddOp(&program, OpKind::kForward);
    const OpId there = AddOp(&program, OpKind::kPipelineTransfer);
    const OpId back = AddOp(&program, OpKind::kPipelineTransfer);
    mine.rank = Rank();
    mine.ranks = 2;
    mine.queues = {{Lane::kMain, false}, {Lane::kPpForward, false}, {Lane::kPpForward, true}};
    RankOp compute = Op(RankOpKind::kCompute, work, 0);
    compute.kernels = 0;
    const auto message = [&](RankOpKind kind, OpId op, std::vector<std::uint32_t> waits) {
      RankOp out = Op(kind, op, kind == RankOpKind::kSend ? 1 : 2);
      out.peers = {1 - Rank()};
      out.bytes = 400000;
      out.waits = std::move(waits);
      return out;
    };
    if (Rank() == 0) {
      compute.repeats = 4;
      mine.ops = {compute, message(RankOpKind::kSend, there, {0}),
                  message(RankOpKind::kReceive, back, {})};
      compute.repeats = 1;
      compute.waits = {2};
      mine.ops.push_back(compute);
    } else {
      mine.ops = {compute, message(RankOpKind::kReceive, there, {})};
      compute.waits = {1};
      mine.ops.push_back(compute);
      mine.ops.push_back(message(RankOpKind::kSend, back, {2}));
    }
  }
};

TEST_CASE("messages go both ways, and no receiver is earlier than its sender") {
  const PingPong p;
  NoProgress progress;
  const auto backend = MakeCpuBackend(MPI_COMM_WORLD, 1);
  const RankRun run = RunRank(backend.get(), p.program, p.mine, {1, 2, 1}, &progress);
  REQUIRE(run.steps.size() == 2);
  REQUIRE(run.timed.size() == 1);
  const auto& ops = run.timed[0];
  const auto end = [&](std::size_t i) { return ops[i].start_s + ops[i].duration_s; };
  // What the other rank's send ended at.
  double sent = end(Rank() == 0 ? 1 : 3), other = 0;
  MPI_Sendrecv(&sent, 1, MPI_DOUBLE, 1 - Rank(), 9, &other, 1, MPI_DOUBLE, 1 - Rank(), 9,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const std::size_t received = Rank() == 0 ? 2 : 1;
  CHECK(ops[received].start_s >= other);
  CHECK(ops[received].duration_s > 0);
  // The chain 4 + 1 + 1 ms of spinning is in every step, whatever the wall says.
  if (Rank() == 0) {
    CHECK(ops[3].start_s >= end(2));
    CHECK(run.steps[0].seconds >= 6e-3);
    CHECK(end(3) >= 6e-3);
  } else {
    CHECK(ops[1].start_s >= 4e-3);
    CHECK(ops[2].start_s >= end(1));
  }
  bool messages = false;
  for (const RunCheck& check : run.checks) {
    CHECK(check.passed);
    messages = messages || check.name == "messages";
  }
  CHECK(messages);
}

// Works (rank 1 twice as long), reduces gradients, steps; with `sharded`, by halves that are gathered.
RankRun Train(bool sharded) {
  Program program;
  Kernel host;
  host.kind = KernelKind::kHost;
  host.host_s = 1e-3;
  program.kernels = {{host}};
  const OpId work = AddOp(&program, OpKind::kBackward);
  const OpId reduce = AddOp(&program, OpKind::kGradientReduce);
  const OpId step = AddOp(&program, OpKind::kOptimizer);
  const OpId gather = AddOp(&program, OpKind::kParameterGather);
  RankProgram mine;
  mine.rank = Rank();
  mine.ranks = 2;
  mine.queues = {{Lane::kMain, false}, {Lane::kDp, false}};
  mine.groups = {{{0, 1}, "dp 0 of stage 0"}};
  RankOp compute = Op(RankOpKind::kCompute, work, 0);
  compute.kernels = 0;
  compute.repeats = static_cast<std::uint32_t>(1 + Rank());
  RankOp collective = Op(RankOpKind::kCollective, reduce, 1);
  collective.collective = sharded ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  collective.group = 0;
  collective.bytes = 100000;
  collective.waits = {0};
  RankOp optimizer = compute;
  optimizer.op = step;
  optimizer.waits = {1};
  mine.ops = {compute, collective, optimizer};
  if (sharded) {
    collective.op = gather;
    collective.collective = CollectiveKind::kAllGather;
    collective.waits = {2};
    mine.ops.push_back(collective);
  }
  NoProgress progress;
  const auto backend = MakeCpuBackend(MPI_COMM_WORLD, 3);
  return RunRank(backend.get(), program, mine, {1, 2, 1}, &progress);
}

TEST_CASE("a collective begins when its last member has come, on all members at once") {
  for (const bool sharded : {false, true}) {
    const RankRun run = Train(sharded);
    const auto& ops = run.timed.at(0);
    double mine[2] = {ops[1].start_s, ops[1].duration_s}, other[2] = {0, 0};
    MPI_Sendrecv(mine, 2, MPI_DOUBLE, 1 - Rank(), 9, other, 2, MPI_DOUBLE, 1 - Rank(), 9,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(mine[0] == other[0]);
    CHECK(mine[1] == other[1]);
    CHECK(mine[0] >= 2e-3);
    int found = 0;
    for (const RunCheck& check : run.checks) {
      CHECK(check.passed);
      found += check.name == "sums" || check.name == "replicas";
    }
    CHECK(found == 2);
  }
}

TEST_CASE("every kind of collective gives what it should, and a wrong result is seen") {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
        CollectiveKind::kAllToAll, CollectiveKind::kBroadcast, CollectiveKind::kSendRecv}) {
    CAPTURE(CollectiveName(kind));
    for (const double bytes : {4.0, 1000.0, 300000.0}) {
      const std::size_t floats = CollectiveFloats(kind, bytes, 2);
      CHECK(static_cast<double>(floats) * 4 >= bytes);
      std::vector<float> data(floats), other(floats);
      FillKnown(kind, MPI_COMM_WORLD, floats, data.data(), other.data());
      RunCollective(kind, MPI_COMM_WORLD, floats, data.data(), other.data());
      CHECK(HoldsKnown(kind, MPI_COMM_WORLD, floats, data.data(), other.data()));
      data[0] += 1;
      other[0] += 1;
      CHECK_FALSE(HoldsKnown(kind, MPI_COMM_WORLD, floats, data.data(), other.data()));
    }
  }
}

TEST_CASE("a bench of two cores measures what they have and nothing else") {
  CpuBench bench(MPI_COMM_WORLD, 1);
  Kernel product;
  product.kind = KernelKind::kGemm;
  product.m = product.n = product.k = 64;
  CHECK(bench.Time(product, 3).seconds.empty());  // bf16
  product.dtype = DType::kFp32;
  const Samples kernel = bench.Time(product, 3);
  CHECK(kernel.seconds.size() <= 3);
  CHECK(kernel.seconds.size() + static_cast<std::size_t>(kernel.disturbed) >= 3);
  for (const double s : kernel.seconds) CHECK(s > 0);
  CHECK(bench.Collective(CollectiveKind::kAllReduce, 3, 1e4, DType::kFp32, 3).seconds.empty());
  const Samples sum = bench.Collective(CollectiveKind::kAllReduce, 2, 1e4, DType::kFp32, 3);
  CHECK(sum.seconds.size() + static_cast<std::size_t>(sum.disturbed) >= 3);
  CHECK(bench.LaunchGap(true, 3).seconds.empty());
}

}  // namespace
}  // namespace aurum

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  doctest::Context context(argc, argv);
  const int failed = context.run();
  MPI_Finalize();
  return failed;
}
