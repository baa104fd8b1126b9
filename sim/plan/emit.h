#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/plan/rank_shares.h"
#include "sim/plan/tape.h"
#include "sim/plan/units.h"
#include "sim/plan/waves.h"

namespace aurum {

// Puts the ops of one stage into a program, pass by pass, in the order in which a framework would
// launch them. What passes of different stages say to each other is left to the caller, who finds
// the waves where a pass begins and ends in `marks`.
class StageEmitter {
 public:
  // Where a pass of one chunk and micro-batch meets other passes.
  struct Marks {
    std::vector<Wave> first;  // these wait for what the pass needs
    Wave last;                // what it makes is there when this ends
    Wave sent;                // its transfer to the next stage
  };
  struct Table {
    std::vector<std::vector<Marks>> forward, backward;     // by chunk and micro-batch
    std::vector<Marks> encoder_forward, encoder_backward;  // by micro-batch, in bubbles
  };

  // All must outlive the emitter. `by_class`: the units of each rank class, where micro-batches
  // differ: [class][micro_batch]; empty: they are `units`.
  struct Inputs {
    const Scenario& scenario;
    const CostContext& context;
    const PlanPricer& pricer;
    const StageCommunication& communication;
    const StageUnits& units;
    const std::vector<std::vector<const StageUnits*>>& by_class;
    std::size_t stage;
    double host_bandwidth;  // B/s of a GPU to its host; 0 = not needed
    Tape& tape;
  };
  StageEmitter(const Inputs& inputs, Waves* waves, Program* program, double* total_s);

  // Where modules other than the backbone begin and end in a forward pass, and where the backbone's
  // first unit takes what they made.
  struct Made {
    Wave first, last;
  };
  struct Fusion {
    Wave consumer;  // the backbone's first kernels; not there: no tokens meet in this pass
    Wave moved;     // the exchange before it, where there is one
  };

  void Run(const std::vector<Pass>& passes);
  const Table& table() const { return table_; }
  // What this stage ran of a module in that chunk (units.chunks.size(): in bubbles) for that
  // micro-batch: an encoder with a larger micro-batch of its own ran before an earlier one. Nothing:
  // not here.
  const Made* MadeIn(std::size_t chunk, std::size_t module, std::size_t micro_batch) const;
  const Fusion& FusionOf(std::size_t chunk, std::size_t micro_batch) const {
    return fusion_[chunk][micro_batch];
  }

 private:
  // One pass under way.
  struct Cursor {
    Pass pass;
    const Chunk* chunk = nullptr;
    const ChunkCommunication* said = nullptr;
    Wave front;               // the data is where this ends
    std::vector<Wave> sides;  // and these, which ran beside it
    std::vector<Wave> first;
    std::size_t next = 0;  // units done
    bool aligned = false;
    Wave moved;  // the exchange of misaligned tokens
  };
  struct Late {  // gradients that are reduced after the last backward
    const Unit* unit;
    const UnitCommunication* of;
  };

  bool Training() const { return s_.workload.task == Task::kTrain; }
  bool Gathers() const {
    return s_.plan.sharding == Sharding::kFsdp || s_.plan.sharding == Sharding::kHsdp;
  }
  // Gradients are reduced in every micro-batch, whole.
  bool ReducesEvery() const {
    return s_.plan.sharding == Sharding::kZero2 || s_.plan.reduce_every_micro_batch;
  }
  // Under a pipeline, FSDP reduces a step's gradients once, after the last micro-batch, and what is not
  // resharded after forward stays until then (PyTorch's pipeline runtime).
  bool ReducesOnce() const { return Gathers() && s_.plan.StageCount() > 1; }
  bool Stays(const Unit& unit) const {
    return ReducesOnce() && !s_.plan.reshard_after_forward && unit.backward;
  }
  void CheckClock(double seconds);
  Work HostWork(double seconds);
  void WaitForData(const Cursor& host);

  // Waves.
  void Attach(Cursor* at, const Wave& wave);
  void Chain(Cursor* at, const Wave& wave);
  OpInfo Kind(OpKind kind, const Cursor& at) const;
  Wave Communicate(const Cursor& at, Lane lane, OpKind kind, CommId comm, int module,
                   double times = 1);
  void ChainCommunication(Cursor* at, Lane lane, OpKind kind, CommId comm, std::size_t module,
                          double times = 1);
  using Part = UnitPart;
  using Half = UnitHalf;
  // Collectives that run at the same time: tensor-parallel ones, and others.
  struct Beside {
    Amount tensor, other;
  };
  Beside With(const Beside& beside, Amount other) {
    return {beside.tensor, tape_.Plus(beside.other, other)};
  }
  // What a communication takes.
  Amount Talk(CommId comm) const { return tape_.Seconds(comm, pricer_.Seconds(comm)); }
  Wave Compute(Cursor* at, OpKind kind, std::size_t index, Part part, Half half,
               const Beside& beside);
  Work WorkOf(const Unit& unit, Part part, Half half, const Beside& beside);
  // Index of Program::kernels, where the program is to be executed.
  std::uint32_t List(std::vector<Kernel> kernels);

  // Passes.
  void Begin(Cursor* at);
  bool StepForward(Cursor* at);  // one unit; false after the last
  bool StepBackward(Cursor* at);
  void EndForward(Cursor* at);
  void EndBackward(Cursor* at);
  void RunPass(const Pass& pass);
  void RunPair(const Pass& a, const Pass& b);
  void ForwardUnit(Cursor* at, std::size_t index);
  void BackwardUnit(Cursor* at, std::size_t index, bool whole);
  void WeightGradientUnit(Cursor* at, std::size_t index);
  void Halves(Cursor* at, std::size_t index, OpKind kind, Part part, Amount beside_all,
              bool last_collective, Wave* begin, Wave* end);
  // The kernels of a half between their tensor-parallel collectives, or with them at their sides;
  // `kernels` takes the seconds of communication beside it. `after`: the collective behind it runs too.
  template <typename Kernels>
  void TensorParallel(Cursor* at, std::size_t index, bool collectives, bool after, Kernels kernels);
  void HalvesBackward(Cursor* at, std::size_t index, Part part, Amount beside_all, Wave* begin,
                      Wave* end);
  bool Runs(const Unit& unit, int micro_batch, bool backward) const;

  // Data parallelism.
  void GatherAhead(Cursor* at, const Unit& unit, const UnitCommunication& of);
  void Consume(const Wave& wave);
  void Reduce(const Unit& unit, const UnitCommunication& of, const Wave& made);
  void FlushReduce();
  void DecideOverlap();
  std::size_t PlaceOf(const Cursor& at) const;
  void NoteModules(const Cursor& at, std::size_t index, const Wave& begin, const Wave& end);
  bool Overlapped(const Cursor& at, std::size_t index) const;
  void GatherParameters();
  Amount BesideForward(const Cursor& at, std::size_t index) const;
  Amount BesideBackward(const Cursor& at, std::size_t index) const;
  Wave AddDp(OpKind kind, const Unit& unit, CommId comm, const Wave& after);
  Wave Select(const Unit& unit, const UnitCommunication& of, const Wave& after);
  // A module of its own begins: nothing of the last one is under way beside it.
  void CrossBorder(const Unit& unit);
  void StepCompute(const Wave& wave);
  Wave Earlier(int steps) const;
  void Optimize();

  // Generation.
  void Generate();
  void Decode(std::int32_t micro_batch);

  // Memory and host transfers.
  void Take(const Wave& wave, bool at_end, MemoryKind kind, const Unit& unit, double bytes,
            const std::vector<KeptTensor>* tensors = nullptr);
  std::uint32_t TensorsOf(const Unit& unit, const std::vector<KeptTensor>& tensors);
  double WindowBytes(const Unit& unit, CommId comm) const;
  void TakeWindow(const Wave& wave, const Unit& unit, const UnitCommunication& of);
  void ReturnWindow(const Wave& wave, const Unit& unit, const UnitCommunication& of);
  std::vector<Work> TrafficWork(double bytes);
  // The link is full duplex: each direction has a lane of its own.
  Wave HostTransfer(const Cursor& at, Lane lane, const Unit& unit, double bytes, const Wave& after);

  const Scenario& s_;
  const CostContext& context_;
  const PlanPricer& pricer_;
  const StageCommunication& communication_;
  const StageUnits& units_;
  const std::vector<std::vector<const StageUnits*>>& by_class_;
  std::size_t stage_;
  double host_bandwidth_;
  Waves& waves_;
  Program& program_;
  double& total_s_;
  Tape& tape_;
  Table table_;
  std::vector<std::vector<Fusion>> fusion_;  // by chunk and micro-batch
  std::vector<std::vector<std::vector<Made>>>
      made_;  // by chunk (bubbles last), module, micro-batch

  // By chunk, bubbles last: the micro-batches of its first forward, first and last backward.
  struct Ends {
    int forward = -1, first = -1, last = -1;
  };
  std::vector<Ends> ends_;
  const Ends& EndsOf(const Cursor& at) const {
    const bool bubbles = at.chunk == &units_.bubbles;
    return ends_[bubbles ? units_.chunks.size() : static_cast<std::size_t>(at.pass.chunk)];
  }
  void FindEnds(const std::vector<Pass>& passes);
  bool IsFirstBackward(const Cursor& at, const Unit& unit) const {
    return at.pass.micro_batch == (unit.every > 1 ? unit.every - 1 : EndsOf(at).first);
  }

  std::vector<std::vector<bool>> overlapped_;       // by chunk (bubbles last) and unit
  std::vector<std::vector<Wave>> gathered_;         // ZeRO-1: by chunk (bubbles last) and unit
  std::vector<std::vector<Amount>> gather_beside_;  // of them, seconds beside compute
  std::deque<Wave> computes_;                       // the last waves of the main stream
  std::vector<Wave> pending_;                       // the next compute waits for these
  Wave blocking_;                                   // and for this, which may not run beside it
  std::vector<Wave> reduces_;
  double merge_bytes_ = 0;  // of device memory, to add up sparse gradients that came
  int module_ = -1;         // of the last compute, and how many of its units ran since
  int since_border_ = 0;
  std::size_t behind_border_ = 0;  // of reduces_, those that a border has waited for
  std::vector<Late> late_;
  struct Waiting {
    const Unit* unit;
    const UnitCommunication* of;
    Wave after;
  };
  std::optional<Waiting> waiting_;
  std::unordered_map<const void*, std::uint32_t> known_tensors_;
  std::vector<std::pair<const Unit*, double>> held_gradients_;
  std::map<const Unit*, int> windows_;  // passes that hold a unit's gathered parameters
  std::deque<Wave> leaving_;            // activations on their way to the host
};

}  // namespace aurum
