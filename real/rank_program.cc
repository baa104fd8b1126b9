#include "real/rank_program.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/core/hash.h"

// One rank's part of a program
// ----------------------------
// A program is a graph of ops over all ranks. A rank needs its own ops in an order in which it can
// launch them, what they wait for on its other queues, and messages wherever an op waits for another
// rank. The order of op ids is such an order: a stage's ops were made in the order in which a framework
// launches them, and an op never waits for a later one of its own stage.
//
// An op has participants: a kernel its rank, a collective the members of its group, a transfer its
// sender. Of a dependency A → B, a rank of B that takes part in A waits for A in a queue of its own; if
// B is a collective and other members of it took part in A, they wait and the collective makes the rank
// wait for them. What remains are ranks of B that nobody in A is: A's first participant sends each of
// them a message. For a transfer, these messages are what it moves.
//
//   stage 0:  F0 ── T0 ──┐                       rank 0:  F0, send(T0) …
//   stage 1:             └── F0' ── …            rank 1:  receive(T0), F0' …
//
// Messages between two ranks are received in the order in which they are sent, since some transports
// have no other way to tell them apart: a receive that is needed early brings the earlier ones along.
// No rank can wait for itself through others: launch order and dependencies together have no cycle,
// because passes are scheduled so that every one comes after what it needs.
//
// Cost: O(ops + dependencies) a rank.
namespace aurum {
namespace {

bool IsCollective(const Program& program, OpId op) {
  const std::uint32_t comm = program.work[op].communication;
  return comm != kNoWork && !program.communications[comm].transfer;
}

// Who takes part in ops of an unfolded program.
class Participants {
 public:
  Participants(const Program& program, const Scenario& scenario)
      : program_(program), scenario_(scenario) {}

  const std::vector<int>& Members(OpId op) {
    const std::uint32_t comm = program_.work[op].communication;
    assert(comm != kNoWork);
    const Communication& c = program_.communications[comm];
    auto& groups = groups_[{c.stage, c.groups}];
    if (groups.empty()) groups = GroupsOfStage(scenario_.plan, c.stage, c.groups);
    return groups[program_.work[op].group];
  }
  int First(OpId op) {
    if (program_.work[op].communication == kNoWork) return KernelRank(op);
    return Members(op).front();  // of a transfer: its sender
  }
  bool Has(OpId op, int rank) {
    if (!IsCollective(program_, op)) return First(op) == rank;
    const std::vector<int>& members = Members(op);
    return std::find(members.begin(), members.end(), rank) != members.end();
  }
  // Some of B's members took part in A: of a collective B, the others wait through them.
  bool Share(OpId a, OpId b) {
    if (!IsCollective(program_, b)) return Has(a, First(b));
    const std::vector<int>& members = Members(b);
    return std::any_of(members.begin(), members.end(), [&](int rank) { return Has(a, rank); });
  }

 private:
  int KernelRank(OpId op) const { return program_.classes[program_.info[op].rank_class].first_gpu; }
  const Program& program_;
  const Scenario& scenario_;
  std::map<std::pair<std::size_t, GroupKind>, std::vector<RankGroup>> groups_;
};

const char* GroupName(GroupKind kind) {
  switch (kind) {
    case GroupKind::kTp:
      return "tp";
    case GroupKind::kCp:
      return "cp";
    case GroupKind::kDp:
      return "dp";
    case GroupKind::kExpertTp:
      return "expert tp";
    case GroupKind::kEp:
      return "ep";
    case GroupKind::kExpertDp:
      return "expert dp";
    case GroupKind::kShard:
      return "shard";
    case GroupKind::kReplica:
      return "replica";
    default:
      return "pipeline";
  }
}

// A rank's ops as they are put together.
class Builder {
 public:
  Builder(const Program& program, int rank, int ranks) : program_(program) {
    out_.rank = rank;
    out_.ranks = ranks;
    local_.assign(program.info.size(), kNoWork);
  }

  std::uint32_t Queue(Lane lane, bool receives) {
    const auto [known, is_new] =
        queues_.try_emplace({lane, receives}, static_cast<std::uint32_t>(out_.queues.size()));
    if (is_new) out_.queues.push_back({lane, receives});
    return known->second;
  }
  std::uint32_t Group(const std::vector<int>& members, GroupKind kind, std::size_t stage,
                      std::uint32_t number) {
    for (std::size_t i = 0; i < out_.groups.size(); ++i) {
      if (out_.groups[i].ranks == members) return static_cast<std::uint32_t>(i);
    }
    out_.groups.push_back({members, std::string(GroupName(kind)) + " " + std::to_string(number) +
                                        " of stage " + std::to_string(stage)});
    return static_cast<std::uint32_t>(out_.groups.size() - 1);
  }

  // What `op` is to this rank, but for what it waits for.
  RankOp Make(OpId op, RankOpKind kind, bool receives = false) {
    const OpInfo& info = program_.info[op];
    RankOp made;
    made.kind = kind;
    made.op = op;
    made.queue = Queue(info.lane, receives);
    made.modelled_s = receives ? 0 : Seconds(program_.graph.duration(op));
    made.kernels = program_.work[op].kernels;
    made.repeats = program_.work[op].repeats;
    made.times = program_.work[op].times;
    made.bytes = info.bytes;
    return made;
  }
  // `local`: the rank's own op that stands for the program's, from now on.
  std::uint32_t Add(RankOp op) {
    const auto at = static_cast<std::uint32_t>(out_.ops.size());
    if (local_[op.op] == kNoWork || op.kind != RankOpKind::kSend) local_[op.op] = at;
    std::sort(op.waits.begin(), op.waits.end());
    op.waits.erase(std::unique(op.waits.begin(), op.waits.end()), op.waits.end());
    // What its own queue has done, it need not be told.
    std::erase_if(op.waits, [&](std::uint32_t w) { return out_.ops[w].queue == op.queue; });
    out_.activations_bytes = std::max(out_.activations_bytes, op.bytes);
    if (op.kernels != kNoWork) {
      for (const Kernel& kernel : program_.kernels[op.kernels])
        out_.activations_bytes = std::max(out_.activations_bytes, kernel.bytes);
    }
    out_.ops.push_back(std::move(op));
    return at;
  }
  std::uint32_t Local(OpId op) const { return local_[op]; }
  RankProgram& out() { return out_; }

 private:
  const Program& program_;
  RankProgram out_;
  std::map<std::pair<Lane, bool>, std::uint32_t> queues_;
  std::vector<std::uint32_t> local_;
};

struct Message {
  OpId op;
  int from, to;
};

// Every message of the program, by the order of what is sent.
std::vector<Message> MessagesOf(const Program& program, Participants* who) {
  std::vector<Message> messages;
  for (OpId b = 0; b < program.info.size(); ++b) {
    for (const OpId a : program.graph.predecessors(b)) {
      // On one stream, or between kernels of one rank: nearly all dependencies.
      if (who->Share(a, b)) continue;
      if (!IsCollective(program, b)) {
        messages.push_back({a, who->First(a), who->First(b)});
      } else {
        // Members that the transfer goes to, where it goes to some: the others wait through them.
        const std::vector<int>& members = who->Members(b);
        const auto reached = [&](int member) {
          if (!IsTransfer(program, a)) return false;
          const std::vector<int>& partners = who->Members(a);
          return std::find(partners.begin() + 1, partners.end(), member) != partners.end();
        };
        const bool some = std::any_of(members.begin(), members.end(), reached);
        for (const int member : members) {
          if (!some || reached(member)) messages.push_back({a, who->First(a), member});
        }
      }
    }
  }
  const auto key = [](const Message& m) { return std::tuple(m.op, m.to); };
  std::sort(messages.begin(), messages.end(),
            [&](const Message& x, const Message& y) { return key(x) < key(y); });
  messages.erase(std::unique(messages.begin(), messages.end(),
                             [&](const Message& x, const Message& y) { return key(x) == key(y); }),
                 messages.end());
  return messages;
}

RankOpKind KindOf(const Program& program, OpId op) {
  if (program.info[op].kind == OpKind::kHostTransfer) return RankOpKind::kHostTransfer;
  if (IsTransfer(program, op)) return RankOpKind::kSend;
  if (IsCollective(program, op)) return RankOpKind::kCollective;
  return RankOpKind::kCompute;
}

}  // namespace

bool IsTransfer(const Program& program, OpId op) {
  const std::uint32_t communication = program.work[op].communication;
  return communication != kNoWork && program.communications[communication].transfer;
}

RankProgram RankProgramOf(const Program& program, const Scenario& scenario, int rank) {
  assert(program.executable);
  Participants who(program, scenario);
  Builder builder(program, rank, scenario.cluster->GpuCount());

  // What this rank sends after which op, and what it receives from whom, in the sender's order.
  std::map<OpId, std::vector<int>> sends;
  std::map<int, std::vector<OpId>> inbox;
  for (const Message& m : MessagesOf(program, &who)) {
    if (m.from == rank) sends[m.op].push_back(m.to);
    if (m.to == rank) inbox[m.from].push_back(m.op);
  }
  std::map<int, std::size_t> received;  // by sender
  std::set<OpId> incoming;
  for (const auto& [from, ops] : inbox) incoming.insert(ops.begin(), ops.end());
  const auto message_bytes = [&](OpId op) {
    if (!IsTransfer(program, op)) return 0.0;
    const double partners = static_cast<double>(who.Members(op).size()) - 1;
    return program.info[op].bytes / std::max(partners, 1.0);
  };
  const auto receive_through = [&](OpId op) {
    const int from = who.First(op);
    const std::vector<OpId>& all = inbox[from];
    std::size_t& next = received[from];
    while (builder.Local(op) == kNoWork) {
      assert(next < all.size());
      RankOp receive = builder.Make(all[next], RankOpKind::kReceive, true);
      receive.kernels = kNoWork;
      receive.peers = {from};
      receive.bytes = message_bytes(all[next]);
      builder.Add(std::move(receive));
      ++next;
    }
  };

  for (OpId op = 0; op < program.info.size(); ++op) {
    if (!who.Has(op, rank)) continue;
    RankOp made = builder.Make(op, KindOf(program, op));
    for (const OpId before : program.graph.predecessors(op)) {
      if (!who.Has(before, rank)) {
        if (!incoming.contains(before) || who.Share(before, op)) continue;  // another member waits
        receive_through(before);
      }
      made.waits.push_back(builder.Local(before));
    }
    const auto to = sends.find(op);
    if (made.kind == RankOpKind::kCollective) {
      const Communication& c = program.communications[program.work[op].communication];
      made.collective = c.kind;
      made.bytes = c.bytes;
      made.group = builder.Group(who.Members(op), c.groups, c.stage, program.work[op].group);
    } else if (made.kind == RankOpKind::kSend) {
      if (to != sends.end()) made.peers = to->second;
      made.bytes = message_bytes(op);
    }
    const Lane lane = program.info[op].lane;
    const bool transfer = made.kind == RankOpKind::kSend;
    const std::uint32_t at = builder.Add(std::move(made));
    if (to == sends.end() || transfer) continue;
    RankOp note =
        builder.Make(op, RankOpKind::kSend);  // that it has ended, to ranks that wait for it
    note.queue = builder.Queue(lane, false);
    note.kernels = kNoWork;
    note.modelled_s = note.bytes = 0;
    note.peers = to->second;
    note.waits = {at};
    builder.Add(std::move(note));
  }
  return std::move(builder.out());
}

RankProgram LoneRankProgramOf(const Program& program, const Schedule& schedule,
                              const Scenario& scenario, int rank) {
  assert(program.executable);
  const std::uint32_t mine = program.ClassOf(rank);
  const int stage = program.classes[mine].stage;
  const OpGraph& graph = program.graph;
  const std::size_t count = program.info.size();
  const auto own_kernel = [&](OpId op) {
    return program.work[op].communication == kNoWork && program.info[op].rank_class == mine;
  };
  const auto is_comm = [&](OpId op) { return program.work[op].communication != kNoWork; };
  // Communication of this rank lies between its kernels, or hands them what another rank made.
  std::vector<bool> after(count, false), before(count, false), direct(count, false);
  for (const OpId op : graph.order()) {
    for (const OpId p : graph.predecessors(op)) {
      if (is_comm(op) && (own_kernel(p) || (is_comm(p) && after[p]))) after[op] = true;
      if (is_comm(op) && own_kernel(p)) direct[op] = true;
      if (is_comm(p) && own_kernel(op)) direct[p] = true;
    }
  }
  const std::span<const OpId> order = graph.order();
  for (std::size_t i = order.size(); i-- > 0;) {
    const OpId op = order[i];
    if (!own_kernel(op) && !before[op]) continue;
    for (const OpId p : graph.predecessors(op)) {
      if (is_comm(p)) before[p] = true;
    }
  }
  const auto is_mine = [&](OpId op) {
    if (own_kernel(op)) return true;
    if (!is_comm(op)) return false;
    const bool here = program.classes[program.info[op].rank_class].stage == stage;
    return direct[op] || (here && after[op] && before[op]);
  };

  Builder builder(program, rank, scenario.cluster->GpuCount());
  // Ids order the ops of a stage; a message from another stage comes when it is first waited for.
  const auto add_delay = [&](OpId op, bool receives, std::vector<std::uint32_t> waits) {
    RankOp made = builder.Make(op, RankOpKind::kDelay, receives);
    made.kernels = kNoWork;
    made.modelled_s = Seconds(graph.duration(op));
    for (const OpId p : graph.predecessors(op)) {
      if (!is_mine(p)) made.not_before_s = std::max(made.not_before_s, Seconds(schedule.end[p]));
    }
    made.waits = std::move(waits);
    builder.Add(std::move(made));
  };
  const auto foreign = [&](OpId op) {
    return is_comm(op) && program.classes[program.info[op].rank_class].stage != stage;
  };
  for (OpId op = 0; op < count; ++op) {
    if (!is_mine(op) || foreign(op)) continue;
    std::vector<std::uint32_t> waits;
    double not_before = 0;
    for (const OpId p : graph.predecessors(op)) {
      if (is_mine(p) && foreign(p) && builder.Local(p) == kNoWork) add_delay(p, true, {});
      if (is_mine(p)) {
        waits.push_back(builder.Local(p));
      } else if (!is_comm(op)) {
        not_before = std::max(not_before, Seconds(schedule.end[p]));
      }
    }
    if (is_comm(op)) {
      add_delay(op, false, std::move(waits));
      continue;
    }
    if (not_before > 0) {  // a kernel of another rank that nothing carries here
      RankOp wait = builder.Make(op, RankOpKind::kDelay, true);
      wait.kernels = kNoWork;
      wait.modelled_s = 0;
      wait.not_before_s = not_before;
      waits.push_back(builder.Add(std::move(wait)));
    }
    RankOp made = builder.Make(op, KindOf(program, op));
    made.waits = std::move(waits);
    builder.Add(std::move(made));
  }
  return std::move(builder.out());
}

std::string ShapeOf(const Program& program) {
  std::string bytes;
  const auto put = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    const OpWork& work = program.work[op];
    put(info.kind);
    put(info.lane);
    put(info.rank_class);
    put(info.module);
    put(info.micro_batch);
    put(work.repeats);
    put(work.times);
    put(info.bytes);
    if (work.kernels != kNoWork) {
      for (const Kernel& k : program.kernels[work.kernels]) {
        put(k.kind);
        put(k.dtype);
        put(k.role);
        for (const double size :
             {k.m, k.n, k.k, k.count, k.sequences, k.heads, k.kv_heads, k.q_len, k.kv_len, k.bytes})
          put(size);
        put(k.head_dim);
      }
    }
    if (work.communication != kNoWork) {
      put(program.communications[work.communication].kind);
      put(work.group);
    }
    for (const OpId before : program.graph.predecessors(op)) put(before);
  }
  return HashText(bytes).Hex();
}

}  // namespace aurum
