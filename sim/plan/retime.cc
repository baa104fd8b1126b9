#include "sim/plan/retime.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/chains.h"
#include "sim/plan/breakdown.h"
#include "sim/plan/lower_taped.h"
#include "sim/plan/waves.h"

namespace aurum {
namespace {

// What depends on kernel costs alone.
struct Costs {
  bool same_shape = false;
  std::vector<double> part_s;     // by Tape::Cost, with all pieces
  std::vector<double> traffic_s;  // by atom
  struct Module {
    double forward_s, backward_s, flops, forward_flops, model_flops;
  };
  std::vector<Module> modules;      // by class and module
  std::vector<double> optimizer_s;  // by class
};

// What depends on prices alone.
struct Talk {
  struct Module {
    double gradient_s, gather_s, tp_s;
  };
  std::vector<Module> modules;     // by class and module
  std::vector<double> transfer_s;  // by class
};

bool SameUnit(const Unit& a, const Unit& b) {
  const auto mixture = [](const Unit& unit) { return unit.shared.forward.Seconds() > 0; };
  return a.module == b.module && a.layer == b.layer && a.head == b.head &&
         a.has_second == b.has_second && a.recomputed == b.recomputed &&
         a.block_start == b.block_start && a.backward == b.backward && a.trained == b.trained &&
         a.every == b.every && a.pieces == b.pieces && mixture(a) == mixture(b);
}

bool SameChunk(const Chunk& a, const Chunk& b) {
  return a.meets == b.meets && a.fusion == b.fusion && a.first_layer == b.first_layer &&
         a.last_layer == b.last_layer && a.sent_bytes == b.sent_bytes &&
         std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(), SameUnit);
}

// Where layers lie may follow their costs.
bool SameStages(const std::vector<StageUnits>& a, const std::vector<StageUnits>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const StageUnits& x, const StageUnits& y) {
                      return std::equal(x.chunks.begin(), x.chunks.end(), y.chunks.begin(),
                                        y.chunks.end(), SameChunk) &&
                             SameChunk(x.bubbles, y.bubbles);
                    });
}

// Kernels that count as compute.
bool IsPass(OpKind kind) { return kind != OpKind::kHost && kind != OpKind::kOptimizer; }

bool IsRead(const OpInfo& info) {
  return info.kind == OpKind::kContextCollective || info.kind == OpKind::kExpertCollective ||
         info.kind == OpKind::kWeightGradient || info.lane == Lane::kEp;
}

struct ChainTimes {
  const ChainedGraph& graph;
  Time Start(OpId op) const { return graph.Start(op); }
  Time End(OpId op) const { return graph.End(op); }
};

class TapedRetimer : public Retimer {
 public:
  explicit TapedRetimer(const Scenario& scenario)
      : s_(scenario), lowered_(LowerOnTape(s_)), whole_(*lowered_.program) {}

  // Whether the plan is one that can be timed again.
  bool Prepare() {
    const Tape& tape = *lowered_.tape;
    if (!lowered_.pricer->Alike() || lowered_.fills_bubbles || !tape.Complete() ||
        tape.atom_of_op().size() != whole_.graph.op_count())
      return false;
    const std::vector<std::uint32_t>& atom = tape.atom_of_op();
    const std::size_t ops = atom.size();
    uses_.assign(tape.atoms().size(), 0);
    for (const std::uint32_t a : atom) ++uses_[a];
    // A chain is of one class, and of one micro-batch, so that those of all micro-batches are of a kind.
    std::vector<std::uint64_t> label(ops);
    for (OpId op = 0; op < ops; ++op) {
      const OpInfo& info = whole_.info[op];
      label[op] = (static_cast<std::uint64_t>(info.rank_class) << 32U) |
                  static_cast<std::uint32_t>(info.micro_batch);
    }
    chains_.emplace(whole_.graph, atom, label);
    duration_.resize(uses_.size());
    seconds_.resize(uses_.size());
    slowed_s_.resize(uses_.size());
    modules_ = s_.model->modules.size();
    ListKernels();
    for (OpId op = 0; op < ops; ++op) {
      if (IsRead(whole_.info[op])) read_.push_back(op);
    }
    Program figures = MakeFigures();
    Outcome outcome;
    outcome.time.resize(whole_.classes.size());
    if (!Retime(s_.what_if, &figures, &outcome)) return false;
    TakeMemoryOrder();
    return true;
  }

  bool Retime(const WhatIf& what_if, Program* figures, Outcome* outcome) override {
    s_.what_if = what_if;
    const double scale =
        what_if.flops_per_token ? *what_if.flops_per_token / whole_.own_flops_per_token : 1;
    whole_.flops_scale = scale;
    if (!lowered_.pricer->Reprice()) return false;
    const Costs& costs =
        CostsOf({scale, what_if.gemm_speedup, what_if.attention_speedup, what_if.memory_speedup});
    if (!costs.same_shape) return false;
    if (!SetDurations(costs)) return false;
    TellClasses(costs, TalkOf(whole_.comm_scale), figures);
    makespan_ = chains_->Evaluate(duration_);
    if (!FindBusiest()) return false;
    outcome->schedule.makespan = makespan_;
    outcome->schedule.start.resize(read_.size());
    outcome->schedule.end.resize(read_.size());
    outcome->busiest_class = busiest_;
    BreakDown(&outcome->time[static_cast<std::size_t>(busiest_)]);
    for (std::size_t i = 0; i < read_.size(); ++i) {
      const Time duration = duration_[lowered_.tape->atom_of_op()[read_[i]]];
      figures->graph.SetDuration(static_cast<OpId>(i), duration);
      outcome->schedule.start[i] = {};
      outcome->schedule.end[i] = duration;
    }
    return true;
  }

  Program MakeFigures() const override {
    Program figures;
    figures.classes = whole_.classes;
    figures.class_of_gpu = whole_.class_of_gpu;
    figures.alignment = whole_.alignment;
    figures.micro_batches = whole_.micro_batches;
    figures.micro_batch_tokens = whole_.micro_batch_tokens;
    figures.own_flops_per_token = whole_.own_flops_per_token;
    figures.own_bus_bandwidth = whole_.own_bus_bandwidth;
    const StreamId stream = figures.graph.AddStream();
    for (const OpId op : read_) {
      figures.graph.AddOp(stream, Time{});
      figures.info.push_back(whole_.info[op]);
    }
    return figures;
  }

  const Scenario& scenario() const override { return s_; }
  const Program& Whole() const override { return whole_; }
  void Expand(Schedule* schedule) const override { chains_->Expand(schedule); }

  bool SameMemoryOrder() const override {
    for (std::size_t a = 0; a < zero_.size(); ++a) {
      if (uses_[a] > 0 && zero_[a] != (duration_[a].ps == 0)) return false;
    }
    return std::all_of(unsure_.begin(), unsure_.end(),
                       [&](const auto& pair) { return KeyOf(pair.first) < KeyOf(pair.second); });
  }

 private:
  using Link = std::uint32_t;  // of ChainedGraph::link_class

  // Kernels of a kind of chain, and the gaps between them. Both are lists of the whole plan's, of which
  // a kind has a part.
  struct Kernel {
    Link link = 0;  // in the chain
    std::uint32_t atom = 0;
  };
  struct Between {
    GapCause cause = GapCause::kTp;
    Link first = 0, last = 0;  // of link_class()
  };
  struct Kind {
    std::uint32_t first_kernel = 0, kernels = 0;
    std::uint32_t first_gap = 0, gaps = 0;
    bool forward = false;   // among them is one of a forward pass
    bool computes = false;  // all are of passes
  };
  enum class Plain : std::uint8_t { kUnknown, kYes, kNo };

  void ListKernels() {
    const std::vector<Tape::Atom>& atoms = lowered_.tape->atoms();
    for (const ChainedGraph::Kind& links : chains_->kinds()) {
      Kind kind;
      kind.first_kernel = static_cast<std::uint32_t>(kernels_.size());
      kind.first_gap = static_cast<std::uint32_t>(between_.size());
      kind.computes = true;
      Link begin = links.first;  // of what runs since the last kernel
      for (Link i = links.first; i < links.first + links.size; ++i) {
        const std::uint32_t a = chains_->link_class()[i];
        if (atoms[a].lane != Lane::kMain) continue;
        const bool first = kernels_.size() == kind.first_kernel;
        for (Link k = begin; !first && k < i; ++k) {
          const GapCause cause = CommunicationCause(atoms[chains_->link_class()[k]].op);
          if (k > begin && between_.back().cause == cause)
            between_.back().last = k;
          else
            between_.push_back({cause, k, k});
        }
        kernels_.push_back({i - links.first, a});
        kind.forward = kind.forward || atoms[a].op == OpKind::kForward;
        kind.computes = kind.computes && IsPass(atoms[a].op);
        begin = i + 1;
      }
      kind.kernels = static_cast<std::uint32_t>(kernels_.size()) - kind.first_kernel;
      kind.gaps = static_cast<std::uint32_t>(between_.size()) - kind.first_gap;
      kinds_.push_back(kind);
    }
    kernel_s_.resize(kernels_.size());
    kernel_slowed_s_.resize(kernels_.size());
    between_s_.resize(between_.size());
    chains_of_class_.resize(whole_.classes.size());
    kernels_of_class_.resize(whole_.classes.size());
    std::vector<std::map<std::uint32_t, std::size_t>> count(whole_.classes.size());
    for (OpId op = 0; op < whole_.info.size(); ++op) {
      const OpInfo& info = whole_.info[op];
      if (info.lane != Lane::kMain) continue;
      std::vector<std::uint32_t>& mine = chains_of_class_[info.rank_class];
      if (mine.empty() || mine.back() != chains_->ChainOf(op)) mine.push_back(chains_->ChainOf(op));
      if (IsPass(info.kind)) ++count[info.rank_class][lowered_.tape->atom_of_op()[op]];
    }
    for (std::size_t c = 0; c < count.size(); ++c)
      kernels_of_class_[c].assign(count[c].begin(), count[c].end());
  }

  const Costs& CostsOf(const std::array<double, 4>& key) {
    constexpr std::size_t kMost = 1024;
    if (last_costs_ != nullptr && key == last_key_) return *last_costs_;
    if (known_costs_.size() >= kMost) known_costs_.clear();
    const auto [entry, is_new] = known_costs_.try_emplace(key);
    Costs& costs = entry->second;
    if (is_new) FillCosts(&costs);
    last_key_ = key;
    last_costs_ = &costs;
    return costs;
  }

  void FillCosts(Costs* costs) {
    CostContext context = *lowered_.context;
    context.flops_scale = whole_.flops_scale;
    context.gemm_speedup = s_.what_if.gemm_speedup;
    context.attention_speedup = s_.what_if.attention_speedup;
    context.memory_speedup = s_.what_if.memory_speedup;
    const std::vector<StageUnits> stages = MakeStages(s_, context);
    costs->same_shape = SameStages(*lowered_.stages, stages);
    if (!costs->same_shape) return;
    for (const Tape::Cost& cost : lowered_.tape->costs()) {
      const StageUnits& stage = stages[cost.unit.stage];
      const Chunk& chunk =
          cost.unit.chunk < stage.chunks.size() ? stage.chunks[cost.unit.chunk] : stage.bubbles;
      const Unit& unit = chunk.units[cost.unit.index];
      costs->part_s.push_back(CostOfPart(unit, cost.part, cost.half).Seconds() * unit.pieces);
    }
    for (const Tape::Atom& atom : lowered_.tape->atoms()) {
      costs->traffic_s.push_back(
          atom.kind == Tape::AtomKind::kTraffic ? TrafficSeconds(s_, atom.number, *s_.profile) : 0);
    }
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const RankClass c = MakeRankClass(s_, stages[stage], stage, 0, *lowered_.pricer,
                                        (*lowered_.communication)[stage]);
      costs->optimizer_s.push_back(c.optimizer_s);
      for (const ModuleShare& m : c.modules) {
        costs->modules.push_back(
            {m.forward_s, m.backward_s, m.flops, m.forward_flops, m.model_flops});
      }
    }
  }

  const Talk& TalkOf(double comm_scale) {
    constexpr std::size_t kMost = 4096;
    if (last_talk_ != nullptr && comm_scale == last_scale_) return *last_talk_;
    if (known_talk_.size() >= kMost) known_talk_.clear();
    const auto [entry, is_new] = known_talk_.try_emplace(comm_scale);
    Talk& talk = entry->second;
    if (is_new) {
      for (std::size_t stage = 0; stage < lowered_.stages->size(); ++stage) {
        const RankClass c = MakeRankClass(s_, (*lowered_.stages)[stage], stage, 0, *lowered_.pricer,
                                          (*lowered_.communication)[stage]);
        talk.transfer_s.push_back(c.transfer_s);
        for (const ModuleShare& m : c.modules)
          talk.modules.push_back({m.gradient_s, m.gather_s, m.tp_s});
      }
    }
    last_scale_ = comm_scale;
    last_talk_ = &talk;
    return talk;
  }

  // False: too long for the clock, or nearly so, which Lower() decides.
  bool SetDurations(const Costs& costs) {
    constexpr double kMostSeconds = 0.5 * kLongestStep;
    const Tape& tape = *lowered_.tape;
    tape.Evaluate(*lowered_.pricer, &node_s_);
    double total_s = 0;
    for (std::size_t a = 0; a < uses_.size(); ++a) {
      if (uses_[a] == 0) continue;
      const Tape::Atom& atom = tape.atoms()[a];
      double seconds = 0, slowed_s = 0;
      switch (atom.kind) {
        case Tape::AtomKind::kFixed:
          seconds = atom.number;
          break;
        case Tape::AtomKind::kKernel:
          seconds = costs.part_s[atom.index];
          slowed_s = s_.stack->overlap_slowdown * std::min(seconds, node_s_[atom.other]) +
                     s_.stack->tp_overlap_slowdown * std::min(seconds, node_s_[atom.tensor]);
          break;
        case Tape::AtomKind::kCommunication:
          seconds = lowered_.pricer->Price(atom.index, 0).seconds * atom.number;
          break;
        case Tape::AtomKind::kTraffic:
          seconds = costs.traffic_s[a];
          break;
      }
      seconds += slowed_s;
      total_s += seconds * static_cast<double>(uses_[a]);
      if (!(total_s < kMostSeconds)) return false;
      duration_[a] = TimeFromSeconds(seconds);
      seconds_[a] = Seconds(duration_[a]);
      slowed_s_[a] = slowed_s;
    }
    return true;
  }

  void TellClasses(const Costs& costs, const Talk& talk, Program* figures) const {
    figures->flops_scale = whole_.flops_scale;
    figures->comm_scale = whole_.comm_scale;
    figures->alignment = whole_.alignment;
    figures->provenance = whole_.provenance;
    for (std::size_t c = 0; c < figures->classes.size(); ++c) {
      RankClass& of = figures->classes[c];
      of.optimizer_s = costs.optimizer_s[c];
      of.transfer_s = talk.transfer_s[c];
      for (std::size_t k = 0; k < modules_; ++k) {
        ModuleShare& share = of.modules[k];
        const Costs::Module& cost = costs.modules[c * modules_ + k];
        share.forward_s = cost.forward_s;
        share.backward_s = cost.backward_s;
        share.flops = cost.flops;
        share.forward_flops = cost.forward_flops;
        share.model_flops = cost.model_flops;
        const Talk::Module& said = talk.modules[c * modules_ + k];
        share.gradient_s = said.gradient_s;
        share.gather_s = said.gather_s;
        share.tp_s = said.tp_s;
      }
    }
  }

  // The class with most compute, as Simulate() finds it from sums of seconds: those of thousands of
  // terms are off by less than a part in 1e12. False where that could decide.
  bool FindBusiest() {
    constexpr double kUnsure = 2e-12;
    double most = -1;
    for (std::size_t c = 0; c < kernels_of_class_.size(); ++c) {
      std::int64_t sum = 0;
      for (const auto& [atom, count] : kernels_of_class_[c])
        sum += duration_[atom].ps * static_cast<std::int64_t>(count);
      const double now = static_cast<double>(sum);
      if (c > 0 && most > 0 && std::abs(now / (most * kBusier) - 1) < kUnsure) return false;
      if (now <= most * kBusier) continue;
      most = now;
      busiest_ = static_cast<int>(c);
    }
    return true;
  }

  // As Simulate() does it, of one class.
  void BreakDown(TimeBreakdown* time) {
    const ChainTimes times{*chains_};
    GapSplitter splitter(whole_, times);
    *time = {};
    plain_.assign(kinds_.size(), Plain::kUnknown);
    Time busy_until;
    bool computed = false;
    gaps_.clear();
    for (const std::uint32_t chain : chains_of_class_[static_cast<std::size_t>(busiest_)]) {
      const std::uint32_t number = chains_->chains()[chain].kind;
      const Kind& kind = kinds_[number];
      const std::span<const OpId> ops = chains_->links(chain);
      const bool plain = kind.computes && IsPlain(number);
      for (std::uint32_t i = 0; i < (plain ? 1 : kind.kernels); ++i) {
        const Kernel& kernel = kernels_[kind.first_kernel + i];
        const OpId op = ops[kernel.link];
        const OpKind of = whole_.info[op].kind;
        const Time start = chains_->Start(op);
        if (start > busy_until)
          splitter.Split(op, busy_until, start, BubbleBefore(of, computed), &gaps_);
        busy_until = std::max(busy_until, chains_->End(op));
        computed = computed || of == OpKind::kForward;
        if (!plain) AddKernelTime(of, seconds_[kernel.atom], slowed_s_[kernel.atom], time);
      }
      if (!plain) continue;
      // What a gap inside of the chain is made of is known, and none joins one before the chain.
      AddGaps(gaps_, time);
      gaps_.clear();
      AddPlain(kind, time);
      computed = computed || kind.forward;
      busy_until = chains_->End(ops[kernels_[kind.first_kernel + kind.kernels - 1].link]);
    }
    AddGaps(gaps_, time);
    if (busy_until < makespan_)
      AddGapTime(GapCause::kPpCooldown, Seconds(makespan_ - busy_until), time);
    SumGaps(time);
  }
  // All kernels and inner gaps of a chain, in their order: sums of doubles are those of Simulate().
  void AddPlain(const Kind& kind, TimeBreakdown* time) const {
    double compute_s = time->compute_s, slowed_s = time->slowed_s;
    for (std::uint32_t i = kind.first_kernel; i < kind.first_kernel + kind.kernels; ++i) {
      compute_s += kernel_s_[i];
      slowed_s += kernel_slowed_s_[i];
    }
    time->compute_s = compute_s;
    time->slowed_s = slowed_s;
    for (std::uint32_t i = kind.first_gap; i < kind.first_gap + kind.gaps; ++i)
      AddGapTime(between_[i].cause, between_s_[i], time);
  }
  // Whether no gap can join another across kernels that take no time, and what gaps are made of is known
  // beforehand, since every communication in them takes time. Then their seconds are listed.
  bool IsPlain(std::uint32_t number) {
    if (plain_[number] != Plain::kUnknown) return plain_[number] == Plain::kYes;
    plain_[number] = GapsStayApart(number) ? Plain::kYes : Plain::kNo;
    if (plain_[number] == Plain::kNo) return false;
    const Kind& kind = kinds_[number];
    for (std::uint32_t i = kind.first_kernel; i < kind.first_kernel + kind.kernels; ++i) {
      kernel_s_[i] = seconds_[kernels_[i].atom];
      kernel_slowed_s_[i] = slowed_s_[kernels_[i].atom];
    }
    for (std::uint32_t i = kind.first_gap; i < kind.first_gap + kind.gaps; ++i) {
      // A gap follows a kernel, so that it has a link before it.
      between_s_[i] =
          Seconds(chains_->prefix()[between_[i].last] - chains_->prefix()[between_[i].first - 1]);
    }
    return true;
  }

  bool GapsStayApart(std::uint32_t number) const {
    const ChainedGraph::Kind& links = chains_->kinds()[number];
    const Kind& kind = kinds_[number];
    const Kernel* kernel = &kernels_[kind.first_kernel];
    const Kernel* const end = kernel + kind.kernels;
    Time since;  // kernels since the last gap
    for (Link i = kernel->link; kernel != end; ++i) {
      const Time duration = duration_[chains_->link_class()[links.first + i]];
      if (i == kernel->link) {
        since += duration;
        ++kernel;
        continue;
      }
      if (duration.ps == 0) return false;
      const bool begins = i == (kernel - 1)->link + 1;
      if (begins && since.ps == 0) return false;
      since = {};
    }
    return since.ps > 0;
  }

  // Memory events by time: what is returned goes first, then the order of the program
  // (sim/memory/memory.cc).
  struct Key {
    std::int64_t when;
    std::uint32_t index;
    auto operator<=>(const Key&) const = default;
  };
  Key KeyOf(std::uint32_t event) const {
    const MemoryEvent& e = whole_.memory[event];
    const Time when = e.at_end ? chains_->End(e.op) : chains_->Start(e.op);
    return {2 * when.ps + (e.bytes > 0 ? 1 : 0), event};
  }
  // Whether `x` stays before `y` whatever the durations, as long as the same ones are nothing.
  bool StaysBefore(std::uint32_t x, std::uint32_t y) const {
    const MemoryEvent &e = whole_.memory[x], &f = whole_.memory[y];
    const bool takes = e.bytes > 0, takes_after = f.bytes > 0;
    // At equal times they would change places.
    const bool must_be_earlier = takes != takes_after ? takes : x > y;
    const auto lasts = [&](const MemoryEvent& of) {
      return duration_[lowered_.tape->atom_of_op()[of.op]].ps > 0;
    };
    if (e.op == f.op) {
      if (e.at_end == f.at_end) return true;
      return !e.at_end ? !must_be_earlier || lasts(e) : !lasts(e);
    }
    if (whole_.graph.stream(e.op) != whole_.graph.stream(f.op) || e.op > f.op) return false;
    return !must_be_earlier || (!e.at_end && lasts(e)) || (f.at_end && lasts(f));
  }
  void TakeMemoryOrder() {
    for (const Time duration : duration_) zero_.push_back(duration.ps == 0);
    std::vector<std::vector<Key>> by_class(whole_.classes.size());
    for (std::uint32_t i = 0; i < whole_.memory.size(); ++i)
      by_class[whole_.memory[i].rank_class].push_back(KeyOf(i));
    for (std::vector<Key>& keys : by_class) {
      std::sort(keys.begin(), keys.end());
      for (std::size_t i = 1; i < keys.size(); ++i) {
        if (!StaysBefore(keys[i - 1].index, keys[i].index))
          unsure_.emplace_back(keys[i - 1].index, keys[i].index);
      }
    }
  }

  Scenario s_;
  TapedLowering lowered_;
  Program& whole_;
  std::optional<ChainedGraph> chains_;
  std::vector<std::uint32_t> uses_;  // ops, by atom
  std::vector<Kind> kinds_;
  std::vector<Kernel> kernels_;                              // of all kinds
  std::vector<Between> between_;                             // of all kinds
  std::vector<std::vector<std::uint32_t>> chains_of_class_;  // with kernels, in order
  std::vector<std::vector<std::pair<std::uint32_t, std::size_t>>>
      kernels_of_class_;  // atoms and how many ops
  std::size_t modules_ = 0;

  std::map<std::array<double, 4>, Costs> known_costs_;
  std::array<double, 4> last_key_{};
  const Costs* last_costs_ = nullptr;
  std::map<double, Talk> known_talk_;
  double last_scale_ = 0;
  const Talk* last_talk_ = nullptr;

  std::vector<double> node_s_;
  std::vector<Time> duration_;  // by atom, as are the next two
  std::vector<double> seconds_, slowed_s_;
  Time makespan_;
  int busiest_ = 0;
  std::vector<Gap> gaps_;
  std::vector<Plain> plain_;                        // by kind of chain
  std::vector<double> kernel_s_, kernel_slowed_s_;  // by kernel of a plain kind
  std::vector<double> between_s_;                   // by gap of a plain kind
  std::vector<OpId> read_;                          // ops that figures are read from

  std::vector<bool> zero_;  // atoms that took no time at the first Retime()
  // Pairs of memory events, one after the other at the first Retime(), that could change places.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> unsure_;
};

}  // namespace

std::unique_ptr<Retimer> Retimer::Make(const Scenario& s) {
  if (s.workload.task != Task::kTrain || s.step != nullptr || s.steps != nullptr ||
      !s.pools.empty() || s.faults.Any())
    return nullptr;
  auto retimer = std::make_unique<TapedRetimer>(s);
  if (!retimer->Prepare()) return nullptr;
  return retimer;
}

}  // namespace aurum
