#include "sim/study/time_parts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

// How the parts are found
// -----------------------
// The compute stream of a class is ops and gaps, one after another. An op is a part of its own kind. A gap
// was split by the simulator, backwards from the op that ended it, into stretches that each belong to one
// op (GapsByOp): the collective that ran, or the kernel of another class that was waited for. Both are
// whole picoseconds, so nothing is lost or counted twice.
//
// Busy time is another question: how long something runs, hidden or not. Collectives of one kind may run
// at the same time (two directions of a pipeline, all steps of one at the chunk level), so it is the
// union of their runs, not the sum.
namespace aurum {
namespace {

// Cause, no module, module, kind, lane, head, not own: the order of parts, too.
using Key = std::tuple<TimeCause, bool, int, OpKind, Lane, bool, bool>;
Key KeyOf(TimeCause cause, const OpInfo& info, bool own) {
  return {cause, info.module < 0, info.module, info.kind, info.lane, info.head, !own};
}

struct Collected {
  TimePart part;
  std::vector<std::pair<Time, Time>> runs;
};

Time UnionOf(std::vector<std::pair<Time, Time>>* runs) {
  std::sort(runs->begin(), runs->end());
  Time covered{}, until{};
  for (const auto& [from, to] : *runs) {
    const Time begin = std::max(from, until);
    if (to > begin) covered += to - begin;
    until = std::max(until, to);
  }
  return covered;
}

}  // namespace

std::string_view TimeCauseName(TimeCause cause) {
  switch (cause) {
    case TimeCause::kCompute:
      return "compute";
    case TimeCause::kTp:
      return "tp";
    case TimeCause::kCp:
      return "cp";
    case TimeCause::kEp:
      return "ep";
    case TimeCause::kHost:
      return "host";
    case TimeCause::kDpGather:
      return "dp_all_gather";
    case TimeCause::kDpReduce:
      return "dp_reduce_scatter";
    case TimeCause::kPpTransfer:
      return "pp_transfer";
    case TimeCause::kPpWarmup:
      return "pp_warmup";
    case TimeCause::kPpCooldown:
      return "pp_cooldown";
    case TimeCause::kPpOther:
      return "pp_other";
    case TimeCause::kStraggler:
      return "straggler_wait";
    case TimeCause::kAlignment:
      return "alignment_wait";
    case TimeCause::kData:
      return "data_wait";
    case TimeCause::kOptimizer:
      return "optimizer";
  }
  return "";
}

TimeCause CauseOf(GapCause cause) {
  switch (cause) {
    case GapCause::kTp:
      return TimeCause::kTp;
    case GapCause::kCp:
      return TimeCause::kCp;
    case GapCause::kEp:
      return TimeCause::kEp;
    case GapCause::kHost:
      return TimeCause::kHost;
    case GapCause::kDpGather:
      return TimeCause::kDpGather;
    case GapCause::kDpReduce:
      return TimeCause::kDpReduce;
    case GapCause::kPpTransfer:
      return TimeCause::kPpTransfer;
    case GapCause::kPpWarmup:
      return TimeCause::kPpWarmup;
    case GapCause::kPpCooldown:
      return TimeCause::kPpCooldown;
    case GapCause::kPpOther:
      return TimeCause::kPpOther;
    case GapCause::kAlignment:
      return TimeCause::kAlignment;
    case GapCause::kStraggler:
      return TimeCause::kStraggler;
  }
  return TimeCause::kPpOther;
}

TimeCause CauseOf(const OpInfo& info) {
  switch (info.kind) {
    case OpKind::kHost:
      return TimeCause::kData;
    case OpKind::kOptimizer:
      return TimeCause::kOptimizer;
    case OpKind::kTpCollective:
      return TimeCause::kTp;
    case OpKind::kPipelineTransfer:
      return TimeCause::kPpTransfer;
    case OpKind::kParameterGather:
      return TimeCause::kDpGather;
    case OpKind::kGradientReduce:
      return TimeCause::kDpReduce;
    case OpKind::kAlignment:
      return TimeCause::kAlignment;
    case OpKind::kContextCollective:
      return TimeCause::kCp;
    case OpKind::kExpertCollective:
      return TimeCause::kEp;
    case OpKind::kHostTransfer:
      return TimeCause::kHost;
    default:
      return TimeCause::kCompute;
  }
}

bool IsCommunication(TimeCause cause) {
  return cause >= TimeCause::kTp && cause <= TimeCause::kPpTransfer;
}

bool IsBubble(TimeCause cause) {
  return cause >= TimeCause::kPpWarmup && cause <= TimeCause::kPpOther;
}

double SecondsOf(const TimeBreakdown& time, TimeCause cause) {
  switch (cause) {
    case TimeCause::kCompute:
      return time.compute_s;
    case TimeCause::kTp:
      return time.tp_s;
    case TimeCause::kCp:
      return time.cp_s;
    case TimeCause::kEp:
      return time.ep_s;
    case TimeCause::kHost:
      return time.host_s;
    case TimeCause::kDpGather:
      return time.dp_gather_s;
    case TimeCause::kDpReduce:
      return time.dp_reduce_s;
    case TimeCause::kPpTransfer:
      return time.pp_transfer_s;
    case TimeCause::kPpWarmup:
      return time.pp_warmup_s;
    case TimeCause::kPpCooldown:
      return time.pp_cooldown_s;
    case TimeCause::kPpOther:
      return time.pp_other_s;
    case TimeCause::kStraggler:
      return time.straggler_wait_s;
    case TimeCause::kAlignment:
      return time.alignment_wait_s;
    case TimeCause::kData:
      return time.data_wait_s;
    case TimeCause::kOptimizer:
      return time.optimizer_s;
  }
  return 0;
}

std::vector<bool> OwnOps(const Program& program, int rank_class) {
  const auto mine = static_cast<std::uint32_t>(rank_class);
  std::vector<bool> own(program.info.size());
  // Of two ops that follow each other: whether `other`'s being the class's makes `info` its own, too. A
  // transfer goes to or comes from whatever is at its ends; a collective of a group that another class
  // speaks for is known by its kernels.
  const auto shares = [&](const OpInfo& info, const OpInfo& other) {
    if (info.lane == Lane::kMain || other.rank_class != mine) return false;
    return other.lane == Lane::kMain || info.kind == OpKind::kPipelineTransfer;
  };
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.rank_class == mine) own[op] = true;
    for (const OpId before : program.graph.predecessors(op)) {
      if (shares(program.info[before], info)) own[before] = true;
      if (shares(info, program.info[before])) own[op] = true;
    }
  }
  return own;
}

std::vector<TimePart> SplitTime(const Program& program, const Schedule& schedule, int rank_class) {
  std::map<Key, Collected> found;
  const auto at = [&](TimeCause cause, const OpInfo& info, bool own) -> Collected& {
    const auto [entry, is_new] = found.try_emplace(KeyOf(cause, info, own));
    if (is_new) {
      TimePart& part = entry->second.part;
      part.cause = cause;
      part.module = info.module < 0 ? -1 : info.module;
      part.kind = info.kind;
      part.lane = info.lane;
      part.head = info.head;
      part.own = own;
    }
    return entry->second;
  };
  const std::vector<bool> own = OwnOps(program, rank_class);
  for (OpId op = 0; op < program.info.size(); ++op) {
    if (!own[op]) continue;
    const OpInfo& info = program.info[op];
    Collected& of = at(CauseOf(info), info, true);
    of.part.ops += 1;
    of.part.flops += info.flops;
    of.part.bytes += info.bytes;
    of.part.slowed_s += info.slowed_s;
    if (info.lane == Lane::kMain) {
      const Time time = schedule.end[op] - schedule.start[op];
      of.part.busy += time;
      of.part.exposed += time;
    } else {
      of.runs.emplace_back(schedule.start[op], schedule.end[op]);
    }
  }
  const OpInfo nothing;
  for (const auto& [gap, op] : GapsByOp(program, schedule, rank_class)) {
    const TimeCause cause = CauseOf(gap.cause);
    // What is waited for as a collective is this class's own where it takes part; a kernel that is
    // waited for never is.
    const bool mine = op != kNoOp && own[op] && program.info[op].lane != Lane::kMain;
    at(cause, op == kNoOp ? nothing : program.info[op], mine).part.exposed += gap.end - gap.start;
  }
  std::vector<TimePart> parts;
  for (auto& [key, of] : found) {
    of.part.busy += UnionOf(&of.runs);
    if (of.part.busy.ps > 0 || of.part.exposed.ps > 0) parts.push_back(of.part);
  }
  return parts;
}

Time ExposedOf(const std::vector<TimePart>& parts) {
  Time sum{};
  for (const TimePart& part : parts) sum += part.exposed;
  return sum;
}

Time ExposedOf(const std::vector<TimePart>& parts, TimeCause cause) {
  Time sum{};
  for (const TimePart& part : parts) {
    if (part.cause == cause) sum += part.exposed;
  }
  return sum;
}

std::string_view OpWords(OpKind kind) {
  switch (kind) {
    case OpKind::kHost:
      return "host, data";
    case OpKind::kForward:
      return "forward";
    case OpKind::kBackward:
      return "backward";
    case OpKind::kOptimizer:
      return "optimizer";
    case OpKind::kDecode:
      return "decode";
    case OpKind::kTpCollective:
      return "tensor parallel";
    case OpKind::kPipelineTransfer:
      return "pipeline transfer";
    case OpKind::kParameterGather:
      return "parameter gather";
    case OpKind::kGradientReduce:
      return "gradient reduce";
    case OpKind::kAlignment:
      return "alignment of tokens";
    case OpKind::kContextCollective:
      return "context parallel";
    case OpKind::kExpertCollective:
      return "expert parallel";
    case OpKind::kHostTransfer:
      return "offload";
    case OpKind::kWeightGradient:
      return "weight gradient";
  }
  return "";
}

std::string_view LaneWords(Lane lane) {
  switch (lane) {
    case Lane::kTp:
      return "tensor group";
    case Lane::kExpertTp:
      return "expert tensor group";
    case Lane::kPpForward:
      return "forward";
    case Lane::kPpBackward:
      return "backward";
    case Lane::kPpAround:
      return "around";
    case Lane::kExpertDp:
      return "experts";
    case Lane::kShard:
      return "shard group";
    case Lane::kReplica:
      return "replicas";
    case Lane::kHost:
      return "to the host";
    case Lane::kHostIn:
      return "from the host";
    default:
      return "";
  }
}

std::string DescribePart(const TimePart& part, const Model& model) {
  const bool kernel = part.lane == Lane::kMain;
  const bool waits = part.cause == TimeCause::kStraggler || IsBubble(part.cause);
  if (waits && part.kind == OpKind::kForward && part.module < 0 && !part.own)
    return "others finish the step";
  std::string words;
  if (waits) {
    words = part.cause == TimeCause::kStraggler ? "a slower rank's " : "another stage's ";
  } else if (!part.own) {
    words = "between others: ";
  }
  if (part.module >= 0) {
    words += model.modules[static_cast<std::size_t>(part.module)].name;
    words += part.head ? " head and loss " : " ";
  }
  words += OpWords(part.kind);
  if (kernel) return words;
  // The usual lane of a kind goes without saying.
  const bool usual = (part.kind == OpKind::kTpCollective && part.lane == Lane::kTp) ||
                     LaneWords(part.lane).empty();
  if (!usual) words += ", " + std::string(LaneWords(part.lane));
  return words;
}

}  // namespace aurum
