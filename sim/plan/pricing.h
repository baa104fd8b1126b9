#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/collectives/chunk.h"
#include "sim/collectives/collective.h"
#include "sim/plan/lower.h"
#include "sim/plan/price_book.h"
#include "sim/plan/program.h"
#include "sim/plan/rank_classes.h"
#include "sim/plan/units.h"

namespace aurum {

// A communication that a plan asked for: an index of the pricer.
using CommId = std::uint32_t;
inline constexpr CommId kNoComm = 0xffffffffU;

// A communication of one class of groups, priced: its time and, at the flow level, its traffic in
// the graph.
struct Priced {
  double seconds = 0;
  double latency_s = 0;
  PatternId pattern = kNoPattern;
  std::shared_ptr<const ChunkProgram> chunks{};  // its steps, at the chunk level
};

// What one unit says to other GPUs.
struct UnitCommunication {
  CommId tp_before = kNoComm, tp_after = kNoComm;  // of a half under tensor parallelism
  CommId ring = kNoComm, ring_backward = kNoComm;  // context parallelism
  CommId ulysses = kNoComm;                        // before and after attention
  CommId features = kNoComm;                       // of all replicas, before a contrastive loss
  CommId dispatch = kNoComm, combine = kNoComm;    // expert parallelism
  CommId expert_gather = kNoComm, expert_reduce = kNoComm;  // inside of an expert's group
  // Data parallelism: of parameters before they are used, of gradients after they are made.
  CommId gather = kNoComm, gather_experts = kNoComm;
  CommId reduce = kNoComm, reduce_replicas = kNoComm, reduce_experts = kNoComm;
  CommId reduce_tokens = kNoComm;  // and among GPUs that share a module's tokens
};

// Parameters whose gradients are reduced together. `split`: of the dense ones, those of modules whose
// tokens or images a tensor-parallel group shares. `module`: whose bucket it is, where modules keep theirs apart.
struct Bucket {
  double dense = 0, split = 0, experts = 0;
  std::size_t module = 0;
};

// Prices every communication of a plan once, on the GPUs that take part in it. First everything is
// asked for, which gives numbers; then Settle() finds out which ranks are alike and prices it.
// Imposed bandwidth is applied here, and what a program says of it (comm_scale, own_bus_bandwidth,
// alignment, provenance) is written here.
class PlanPricer {
 public:
  // All must outlive the pricer. With flows, they are added to the program's graph and the links
  // that they use to its fabric.
  PlanPricer(const Scenario& scenario, const LowerOptions& options, Program* program);

  // Everything but data parallelism.
  UnitCommunication Inside(const Unit& unit, std::size_t stage);
  // Share of an expert dispatch's bytes that the stack's dispatcher sends.
  double ExpertShare(const Unit& unit, std::size_t stage) const;
  // The gathers of one unit's parameters.
  void AskForGathers(const Unit& unit, std::size_t stage, UnitCommunication* of);
  // The reductions of one bucket of gradients.
  void AskForReductions(const Bucket& bucket, std::size_t stage, UnitCommunication* of);
  // One collective in nccl-tests' size convention, over the stage's groups of that kind; kNoComm
  // for groups of one and for no bytes.
  CommId Collective(CollectiveKind kind, double bytes, std::size_t stage, GroupKind groups);
  // From `stage` to the next, or to the one before; `bytes` per GPU.
  CommId Transfer(double bytes, std::size_t stage, GroupKind direction);
  // Exchange of misaligned tokens before the backbone, and of their gradients after it, on a stage
  // where modalities meet.
  struct AlignmentCommunication {
    CommId forward = kNoComm, backward = kNoComm;
  };
  AlignmentCommunication AskForAlignment(std::size_t stage);

  void Settle();
  // The same for costs alone, with prices of a book (may be null) where all groups cost the same. What the
  // cluster's own bus bandwidth is, is asked only where another one is imposed.
  void SettleCosts(PriceBook* book);
  // Instead: every stage is a class, and what was asked for takes no time.
  void SettleUnpriced();
  // Prices the same communications under the scenario's present what-if, where Settle() found all
  // groups of a kind alike. False where the plan would be another, and prices are of no use until it is
  // true again: groups now differ, something has come to take time or ceased to, or tokens are moved
  // otherwise.
  bool Reprice();

  // After Settle(): whether every stage is one class, since all its groups cost the same.
  bool Alike() const { return alike_; }
  const StageClasses& Classes(std::size_t stage) const { return classes_[stage]; }
  GroupKind Groups(CommId comm) const { return asked_[comm].groups; }
  // What was asked for, by CommId.
  std::vector<Communication> Communications() const;
  double Bytes(CommId comm) const { return asked_[comm].bytes; }
  const Priced& Price(CommId comm, std::size_t group_class) const {
    return prices_[asked_[comm].first_price + group_class];
  }
  // Of the slowest class of groups; 0 for kNoComm.
  double Seconds(CommId comm) const { return comm == kNoComm ? 0 : asked_[comm].longest_s; }

 private:
  struct Asked {
    bool transfer = false;
    CollectiveKind kind = CollectiveKind::kSendRecv;
    double bytes = 0;
    std::size_t stage = 0;
    GroupKind groups = GroupKind::kTp;
    std::size_t first_price = 0;
    double longest_s = 0;
    int times = 0;        // asked for
    bool speaks = false;  // takes time, when it was settled
  };

  bool Training() const { return s_.workload.task == Task::kTrain; }
  CommId Ask(const Asked& asked);
  void ResolveCommScale();
  CollectiveOptions Options(GroupKind groups) const;
  CollectiveOptions OptionsFor(const Asked& asked) const;
  // Of all `groups` at once: the slowest's, or each one's.
  // Bytes that a collective passes at once, 0 for any number; and in how many pieces it does.
  double BufferOf(const Asked& asked) const;
  double Pieces(const Asked& asked) const;
  CollectiveCost Cost(const Asked& asked, const std::vector<RankGroup>& groups) const;
  std::vector<CollectiveCost> Costs(const Asked& asked, const std::vector<RankGroup>& groups) const;
  int TransferShares(const Asked& asked) const;
  void AddGather(const Asked& asked, CollectiveCost* cost) const;
  Fabric WholeFabric() const;
  AlikePrice PriceOfAlike(const Asked& asked) const;
  AlikePrice BookedPriceOf(const Asked& asked) const;
  PriceBook::Key BookKey(const Asked& asked) const;
  void SettlePriced();
  const AlikePrice& KnownPriceOf(CommId comm);
  double ScaleOfBandwidth() const;
  bool PriceAlike();
  void PriceEachGroup();
  std::vector<CommId> SameShapes(const std::vector<std::vector<CollectiveCost>>& costs) const;
  // The steps of a collective on one group; nothing for a transfer, which has one.
  std::shared_ptr<const ChunkProgram> Chunks(const Asked& asked, const RankGroup& group) const;

  const Scenario& s_;
  LowerOptions options_;
  Program& program_;
  std::vector<Asked> asked_;
  std::map<std::tuple<int, double, std::size_t, GroupKind>, CommId> known_;
  std::vector<Priced> prices_;
  std::vector<StageClasses> classes_;
  AlignmentCommunication alignment_;  // of the first stage that has one
  bool aligns_ = false;               // tokens meet on a stage
  bool aligns_in_group_ = false;      // of several ranks, over which imposed misalignment goes
  double aligned_token_bytes_ = 0;    // of one of them
  bool alike_ = false;
  PriceBook* book_ = nullptr;
  std::uint64_t book_number_ = 0;                      // of cluster and profile
  double priced_scale_ = 0;                            // comm_scale of prices_
  Provenance own_provenance_ = Provenance::kMeasured;  // of the program, before its communications
  std::vector<Provenance> provenance_of_;              // by communication
  // Reprice(): by communication, bytes and comm_scale.
  std::vector<std::map<std::pair<double, double>, AlikePrice>> known_prices_;
  std::size_t known_price_count_ = 0;
};

}  // namespace aurum
