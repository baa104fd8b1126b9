#include "sim/plan/split.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/collectives/steps.h"
#include "tests/plan/space.h"

namespace aurum {
namespace {

// Twelve layers, 12 heads, 196 tokens; hidden 768.
const char* const kVit196 = "tests/plan/fixtures/vit-b-16-uniform-8.json";
constexpr double kLayers = 12, kHidden = 768, kTokens = 196;

JsonDocument Vit(const std::vector<std::string>& changes) {
  return Document(kVit196, "8xa100-hgx",
                  Join({R"(workload.images=[{"width": 224, "height": 224, "count": 1}])",
                        "workload.text_tokens=128", "plan.micro_batch_size=4"},
                       changes));
}
std::string Split(int tp, const char* axis) {
  return R"(plan.vision={"tp": )" + std::to_string(tp) + R"(, "split": ")" + axis + R"("})";
}
std::string Backbone(int tp, bool sequence_parallel = false) {
  return R"(plan.backbone={"tp": )" + std::to_string(tp) + R"(, "sequence_parallel": )" +
         (sequence_parallel ? "true}" : "false}");
}

// Bytes over one GPU's link, and how many collectives, of one module in micro-batch 0, forward and
// backward, without gradients.
struct Said {
  int count = 0;
  double bytes = 0;
};
Said SaidOf(const Evaluation& e, int module, OpKind kind, CollectiveKind collective, int ranks) {
  Said said;
  for (const OpInfo& info : e.program.info) {
    if (info.kind != kind || info.module != module || info.micro_batch != 0) continue;
    ++said.count;
    said.bytes += info.bytes * BusFactor(collective, ranks);
  }
  return said;
}

TEST_CASE("by tokens, a layer exchanges a T-th of what it does by heads") {
  for (const int tp : {2, 4}) {
    CAPTURE(tp);
    const double stream = 2 * 4 * kTokens * kHidden;  // bytes of one micro-batch of four images
    const Evaluation hidden = EvaluateDocument(Vit({Split(tp, "hidden"), Backbone(tp)}));
    const Evaluation tokens = EvaluateDocument(Vit({Split(tp, "tokens"), Backbone(tp)}));
    const Said heads = SaidOf(hidden, 0, OpKind::kTpCollective, CollectiveKind::kAllReduce, tp);
    const Said exchanged =
        SaidOf(tokens, 0, OpKind::kContextCollective, CollectiveKind::kAllToAll, tp);
    // Two all-reduces forward and two backward; two exchanges (of queries, keys and values, and of
    // what attention gives, four streams in all) forward and two backward.
    CHECK(heads.count == 4 * kLayers);
    CHECK(exchanged.count == 4 * kLayers);
    const double share = (tp - 1.0) / tp;
    CHECK(heads.bytes == doctest::Approx(kLayers * 4 * 2 * share * stream).epsilon(1e-12));
    CHECK(exchanged.bytes == doctest::Approx(kLayers * 8 * share * stream / tp).epsilon(1e-12));
    CHECK(heads.bytes / exchanged.bytes == doctest::Approx(tp).epsilon(1e-12));
    CHECK(SaidOf(tokens, 0, OpKind::kTpCollective, CollectiveKind::kAllReduce, tp).count == 0);
  }
}

TEST_CASE("by tokens, every GPU has all weights, does a T-th of the work and adds up gradients") {
  const Evaluation whole = EvaluateDocument(Vit({Split(1, "hidden"), Backbone(4)}));
  const Evaluation tokens = EvaluateDocument(Vit({Split(4, "tokens"), Backbone(4)}));
  const Evaluation hidden = EvaluateDocument(Vit({Split(4, "hidden"), Backbone(4)}));
  const ModuleShare& replicated = whole.program.classes[0].modules[0];
  const ModuleShare& split = tokens.program.classes[0].modules[0];
  CHECK(split.parameters == replicated.parameters);
  CHECK(hidden.program.classes[0].modules[0].parameters < 0.3 * replicated.parameters);
  CHECK(split.forward_flops == doctest::Approx(replicated.forward_flops / 4).epsilon(1e-9));
  CHECK(split.model_flops == doctest::Approx(replicated.model_flops).epsilon(1e-9));
  // Reduced over the tensor-parallel group too: a shard of 1/dp, in 32 bits or the stack's own.
  double among = 0;
  for (std::size_t op = 0; op < tokens.program.info.size(); ++op) {
    const OpInfo& info = tokens.program.info[op];
    if (info.kind == OpKind::kGradientReduce && info.lane == Lane::kTp) among += info.bytes;
  }
  // The connector, which follows its encoder, is among them.
  const double own = split.parameters + tokens.program.classes[0].modules[1].parameters;
  CHECK(among ==
        doctest::Approx(own / 2 * tokens.scenario.stack->gradient_exchange_bytes).epsilon(1e-9));
  // What is kept of activations is a T-th, of weights it is all.
  CHECK(tokens.memory.Heaviest().at_peak[static_cast<std::size_t>(MemoryComponent::kWeights)] >
        hidden.memory.Heaviest().at_peak[static_cast<std::size_t>(MemoryComponent::kWeights)]);
}

TEST_CASE("a backbone that is tensor-parallel takes tokens that lie in parts") {
  for (const bool sequence_parallel : {false, true}) {
    const Evaluation tokens =
        EvaluateDocument(Vit({Split(4, "tokens"), Backbone(4, sequence_parallel)}));
    CHECK(tokens.program.alignment.ratio == doctest::Approx(0.25));
    CHECK(tokens.program.alignment.seconds_per_micro_batch > 0);
    const Evaluation hidden =
        EvaluateDocument(Vit({Split(4, "hidden"), Backbone(4, sequence_parallel)}));
    CHECK(hidden.program.alignment.ratio == 1);
  }
}

TEST_CASE("on ranks of its own, too: each sends its part") {
  // Four ranks of the tower and one of a backbone in four stages a replica.
  const auto at = [](const char* axis) {
    return EvaluateDocument(Vit({R"(plan.vision={"tp": 4, "placement": "own_ranks", "split": ")" +
                                     std::string(axis) + R"("})",
                                 R"(plan.backbone={"tp": 1, "pp": 4})"}));
  };
  const auto sent = [](const Evaluation& e) {
    for (const OpInfo& info : e.program.info) {
      if (info.kind == OpKind::kPipelineTransfer && info.rank_class == 0 && info.micro_batch == 0)
        return info.bytes;
    }
    return 0.0;
  };
  const Evaluation tokens = at("tokens"), hidden = at("hidden");
  // Four senders, one receiver: it takes all tokens, a quarter from each.
  CHECK(sent(tokens) == doctest::Approx(2 * 4 * kTokens * kHidden / 4).epsilon(1e-12));
  CHECK(sent(tokens) == doctest::Approx(sent(hidden)).epsilon(1e-12));
  // Two stages of the tower hand on each GPU's tokens alone.
  const auto staged = [&](const char* axis) {
    return EvaluateDocument(
        Vit({R"(plan.vision={"tp": 2, "pp": 2, "placement": "own_ranks", "split": ")" +
                 std::string(axis) + R"("})",
             R"(plan.backbone={"tp": 1, "pp": 4})"}));
  };
  CHECK(sent(staged("tokens")) == doctest::Approx(sent(staged("hidden")) / 2).epsilon(1e-12));
}

TEST_CASE("where images are dealt over a replica, gradients of the tower are added up over it") {
  const auto among = [](const Evaluation& e) {
    double bytes = 0;
    for (const OpInfo& info : e.program.info) {
      if (info.kind == OpKind::kGradientReduce && info.lane == Lane::kTp) bytes += info.bytes;
    }
    return bytes;
  };
  const Evaluation dealt =
      EvaluateDocument(Vit({R"(plan.vision={"placement": "colocated_dp"})", Backbone(4)}));
  CHECK(among(dealt) == doctest::Approx(dealt.program.classes[0].modules[0].parameters / 2 *
                                        dealt.scenario.stack->gradient_exchange_bytes)
                            .epsilon(1e-9));
  // GPUs that all do the same have the same gradient already.
  CHECK(among(EvaluateDocument(Vit({Split(1, "hidden"), Backbone(4)}))) == 0);
  const Evaluation frozen = EvaluateDocument(Vit(
      {R"(plan.vision={"placement": "colocated_dp"})", Backbone(4), R"(plan.frozen=["vision"])"}));
  CHECK(among(frozen) == 0);
}

TEST_CASE("tp must divide heads and tokens") {
  // 12 heads and 196 tokens: 1, 2 and 4.
  for (const int tp : {2, 4}) {
    CHECK(RefusalOf(Vit({Split(tp, "tokens"), Backbone(tp)})).diagnostic.code == 0);
  }
  const RefusedPlan eight = RefusalOf(Vit({Split(8, "tokens"), Backbone(8)}));
  CHECK(eight.diagnostic.code == 763);
  CHECK(eight.diagnostic.help == "tp = 1, 2 or 4");
  CHECK(eight.exit_code == ExitCode::kInfeasible);
  CHECK(eight.diagnostic.where.pointer == "/plan/vision/tp");
  // A class token makes 1025 of 1024, which no power of two divides; 16 heads would do.
  const RefusedPlan odd = RefusalOf(Document(
      kVit8, "8xa100-hgx",
      {kOneImage, R"(plan.vision={"tp": 4, "split": "tokens"})", R"(plan.backbone={"tp": 4})"}));
  CHECK(odd.diagnostic.code == 764);
  CHECK(odd.diagnostic.help == "tp = 1, or split = hidden");
}

TEST_CASE("the backbone's tokens are context parallelism's") {
  const RefusedPlan refused = RefusalOf(Vit({R"(plan.backbone={"tp": 4, "split": "tokens"})"}));
  CHECK(refused.diagnostic.code == 765);
  CHECK(refused.diagnostic.help.find("context_parallel = ulysses") != std::string::npos);
  CHECK(refused.diagnostic.where.pointer == "/plan/backbone/split");
  const RefusedPlan spread =
      RefusalOf(Vit({R"(plan.vision={"tp": 2, "split": "tokens", "placement": "balanced"})",
                     R"(plan.backbone={"tp": 2, "pp": 2})"}));
  CHECK(spread.diagnostic.code == 766);
}

TEST_CASE("folded and unfolded agree with tokens split") {
  const JsonDocument document = Vit({Split(2, "tokens"), Backbone(2)});
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const Evaluation e = EvaluateDocument(document, level, Fold::kVerify);
    REQUIRE(e.fold_check);
    CHECK(e.fold_check->equal);
  }
}

}  // namespace
}  // namespace aurum
