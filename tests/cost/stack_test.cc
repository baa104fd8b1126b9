#include "sim/cost/stack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "sim/core/text_file.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

JsonDocument EditedStack(const std::string& name, const std::string& from, const std::string& to) {
  std::string text = ReadTextFile("calibrate/stacks/" + name + ".json");
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  return ParseJson(text, "edited.json");
}

double States(const Stack& s) {
  return s.weight_bytes + s.gradient_bytes + s.master_bytes + s.moment_bytes;
}
// Kept of one layer per token and element of the hidden width, all trained: what has the hidden
// width, with as many key heads as query heads, and `ratio` of the intermediate width.
double Kept(const Stack& s, bool gated, double ratio) {
  const double hidden = 2 * (s.norm_input_bytes + s.norm_copy_bytes + s.linear_input_bytes +
                             (s.hidden_dropout ? 1 : 0));
  const double attention = s.query_bytes + 2 * s.key_value_bytes + s.attention_output_bytes;
  const double mlp = gated ? 2 * s.up_bytes + s.gated_copy_bytes + s.linear_input_bytes
                           : s.up_bytes + s.activation_copy_bytes + s.linear_input_bytes;
  return hidden + attention + ratio * mlp;
}

TEST_CASE("stacks: the published bytes") {
  const Stack megatron = LoadStack("megatron-core", ".");
  // Korthikanti et al. 2022: 18 bytes a parameter with fp32 gradients; 34·h a token and layer
  // without attention scores where f = 4h, of which fused attention without dropout keeps 8 + 8 +
  // 16, and the local layers the masks too.
  CHECK(States(megatron) == 18);
  CHECK(Kept(megatron, false, 4) == 32);
  const Stack local = LoadStack("megatron-core-local", ".");
  CHECK(Kept(local, false, 4) == 34);
  CHECK_FALSE(local.fused_attention);
  CHECK(local.score_bytes == 5);
  CHECK(States(LoadStack("pytorch-fsdp", ".")) == 16);
  CHECK(States(LoadStack("deepspeed-zero", ".")) == 20);
  const Stack hf = LoadStack("hf-transformers", ".");
  CHECK(States(hf) == 8);
  CHECK(LogitBytes(hf, "", 1) == 14);
  // Eager PyTorch keeps 24 bytes of the hidden width and 8 of a gated intermediate one.
  CHECK(Kept(hf, true, 2.5) == 24 + 2.5 * 8);
}

TEST_CASE("stacks: bytes per logit follow the loss kernel") {
  const Stack megatron = LoadStack("megatron-core", ".");
  CHECK(LogitBytes(megatron, "", 8) == 6);
  CHECK(LogitBytes(megatron, "native_fused", 1) == 10);
  CHECK(LogitBytes(megatron, "liger", 1) == 1);
  // The compiler does not fuse the loss over a sharded vocabulary.
  const Stack titan = LoadStack("torchtitan", ".");
  CHECK(LogitBytes(titan, "", 1) == 8);
  CHECK(LogitBytes(titan, "", 2) == 16);
  CHECK(LogitBytes(titan, "chunked", 2) == 2.25);
  CHECK(LogitBytes(LoadStack("torchtune", "."), "", 1) == 2.25);
}

TEST_CASE("stacks: families of attention kernels, against what the tables measured") {
  Stack stack = LoadStack("megatron-core", ".");
  stack.attention_factor = 1.2;
  const auto factor = [&](AttentionFamily family, double capability) {
    stack.attention_kernel = family;
    return AttentionFactor(stack, capability) / 1.2;
  };
  // On Ampere and Ada the tables are FlashAttention 2, on Hopper and data-centre Blackwell 3 or cuDNN's.
  for (const double capability : {8.0, 8.9, 12.0})
    CHECK(factor(AttentionFamily::kFlash2, capability) == doctest::Approx(1));
  for (const double capability : {9.0, 10.0}) {
    CHECK(factor(AttentionFamily::kFlash3, capability) == doctest::Approx(1));
    CHECK(factor(AttentionFamily::kFlash2, capability) == doctest::Approx(1.5));
  }
  // An older family is never faster.
  for (const double capability : {7.0, 8.0, 9.0, 10.0, 12.0}) {
    CHECK(factor(AttentionFamily::kFlash1, capability) >
          factor(AttentionFamily::kFlash2, capability));
    CHECK(factor(AttentionFamily::kFlash2, capability) >=
          factor(AttentionFamily::kFlash3, capability));
  }
}

TEST_CASE("stacks: a base brings what is left out, once") {
  const Stack base = LoadStack("pytorch-fsdp", ".");
  const Stack foundry = LoadStack("llm-foundry", ".");
  CHECK(foundry.attention_kernel == AttentionFamily::kFlash1);
  CHECK(foundry.weight_bytes == base.weight_bytes);
  CHECK(foundry.runtime_bytes == base.runtime_bytes);
  CHECK(foundry.norm_forward_bytes == 2 * base.norm_forward_bytes);
  CHECK(BaseOfStack(OpenStack("llm-foundry", ".")) == "pytorch-fsdp");
  CHECK(BaseOfStack(OpenStack("pytorch-fsdp", ".")).empty());
  // Without its base it says which group is missing.
  CHECK(ThrownBy([] { ReadStack(OpenStack("llm-foundry", ".")); }).code == 102);
  const std::string path = "stack_test_base_of_a_base.json";
  WriteTextFile(path, R"({"schema": "aurum.stack/1", "name": "x", "base": "llm-foundry",
    "description": "x", "provenance": "assumed", "source": "x"})");
  CHECK(ThrownBy([&] { LoadStack(path, "."); }).code == 811);
  std::filesystem::remove(path);
}

TEST_CASE("stacks: read back equal, every group names its source") {
  const std::vector<std::string> names = StackCatalogue(".");
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(names.size() >= 25);
  for (const std::string& name : names) {
    CAPTURE(name);
    const JsonDocument document = OpenStack(name, ".");
    const Stack stack = LoadStack(name, ".");
    CHECK(stack.name == name);
    CHECK(WriteStack(stack).Dump() ==
          WriteStack(ReadStack(ParseJson(WriteStack(stack).Dump(), "x"))).Dump());
    CHECK(stack.sources.size() == 7);
    for (const auto& [group, source] : stack.sources) CHECK_MESSAGE(!source.empty(), group);
    // No key of the file is lost on the way.
    for (const auto& [group, value] : document.root.members()) {
      if (!value.IsObject()) continue;
      const Json written = WriteStack(stack);
      for (const auto& [key, number] : value.members()) {
        const Json* found = written.Find(group)->Find(key);
        REQUIRE_MESSAGE(found != nullptr, key);
        if (number.IsNumber()) CHECK(found->AsNumber() == number.AsNumber());
        if (number.IsBool()) CHECK(found->AsBool() == number.AsBool());
        if (number.IsObject()) CHECK(found->members().size() == number.members().size());
      }
    }
  }
}

TEST_CASE("stacks: reader errors") {
  Diagnostic d =
      ThrownBy([] { ReadStack(EditedStack("megatron-core", "aurum.stack/1", "stack")); });
  CHECK(d.code == 801);
  CHECK(d.where.line == 2);

  d = ThrownBy([] {
    ReadStack(
        EditedStack("megatron-core", "weight_bytes_per_parameter", "weight_bytes_per_paramter"));
  });
  CHECK(d.code == 102);
  CHECK(d.where.pointer == "/state");
  CHECK(d.help.find("weight_bytes_per_paramter") != std::string::npos);

  d = ThrownBy([] {
    ReadStack(EditedStack("megatron-core", "\"runtime_bytes\"", "\"extra\": 1, \"runtime_bytes\""));
  });
  CHECK(d.code == 101);

  d = ThrownBy([] {
    ReadStack(EditedStack("hf-transformers", "\"parameter_exchange_bytes_per_parameter\": 2",
                          "\"parameter_exchange_bytes_per_parameter\": 4"));
  });
  CHECK(d.code == 810);
  CHECK(d.where.pointer == "/state/parameter_exchange_bytes_per_parameter");
  CHECK(d.help.find("weight_bytes_per_parameter") != std::string::npos);

  d = ThrownBy([] {
    ReadStack(
        EditedStack("megatron-core", "\"kernel\": \"fused\"", "\"kernel\": \"loss_parallel\""));
  });
  CHECK(d.code == 810);
  CHECK(d.where.pointer == "/loss/kernel");
  CHECK(d.help.find("loss_parallel") != std::string::npos);

  d = ThrownBy(
      [] { ReadStack(EditedStack("megatron-core", "\"native_fused\"", "\"nativ_fused\"")); });
  CHECK(d.code == 101);
  CHECK(d.where.pointer == "/loss/kept_bytes_per_logit/nativ_fused");

  d = ThrownBy([] {
    ReadStack(
        EditedStack("megatron-core", "\"gradients_persist\": true", "\"gradients_persist\": 1"));
  });
  CHECK(d.code == 103);

  std::string text = ReadTextFile("calibrate/stacks/megatron-core.json");
  text.replace(text.find("\"fused_attention\": true"), 23, "\"fused_attention\": false");
  text.replace(text.find("\"score_bytes_per_score\": 5"), 26, "\"score_bytes_per_score\": 0");
  CHECK(ThrownBy([&] { ReadStack(ParseJson(text, "x.json")); }).code == 810);
}

TEST_CASE("stacks: an unknown name is answered with the nearest") {
  const Diagnostic d = ThrownBy([] { OpenStack("megatron-cor", "."); });
  CHECK(d.code == 240);
  CHECK(d.help.find("did you mean 'megatron-core'?") != std::string::npos);
}

}  // namespace
}  // namespace aurum
