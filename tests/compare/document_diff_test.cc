#include "sim/compare/document_diff.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/compare/sides.h"

namespace aurum {
namespace {

std::vector<std::string> Paths(const std::string& a, const std::string& b) {
  std::vector<std::string> paths;
  for (const KeyChange& change :
       DiffScenarios(ParseJson(a, "a.json").root, ParseJson(b, "b.json").root))
    paths.push_back(change.path);
  return paths;
}

using List = std::vector<std::string>;

TEST_CASE("differences are told by the deepest keys, in the order of A, then of B alone") {
  CHECK(Paths(R"({"model": "x", "plan": {"b": {"tp": 8, "pp": 2}, "c": 1}})",
              R"({"plan": {"d": 2, "b": {"pp": 4, "tp": 8}, "c": 3}, "model": "y"})") ==
        List{"model", "plan.b.pp", "plan.c", "plan.d"});
  CHECK(Paths(R"({"workload": {"images": [{"count": 1, "width": 3}]}})",
              R"({"workload": {"images": [{"count": 2, "width": 3}]}})") ==
        List{"workload.images.0.count"});
  // Lists that are not equally long, and lists of numbers, are one value.
  CHECK(Paths(R"({"w": [{"count": 1}]})", R"({"w": [{"count": 1}, {"count": 1}]})") == List{"w"});
  CHECK(Paths(R"({"w": [1, 2]})", R"({"w": [1, 3]})") == List{"w"});
  // An object that one side lacks is one value, but where all keys have defaults.
  CHECK(Paths(R"({})", R"({"goodput": {"days": 3, "restart_s": 2}})") == List{"goodput"});
  CHECK(Paths(R"({})", R"({"what_if": {"network_factor": 3, "align_ratio": 1}})") ==
        List{"what_if.network_factor", "what_if.align_ratio"});
}

TEST_CASE("what makes no difference to a step is none") {
  CHECK(Paths(R"({"name": "a", "question": "?", "sweep": {}, "phases": [], "x": 8})",
              R"({"name": "b", "x": 8.0})")
            .empty());
  CHECK(Paths(R"({"plan": {"a": 1, "b": 2}})", R"({"plan": {"b": 2, "a": 1}})").empty());
  CHECK(Paths(R"({"budget": null})", R"({})").empty());
}

TEST_CASE("applying all differences makes B, and back makes A") {
  const std::string a =
      R"({"model": "x", "workload": {"images": [{"count": 1}], "mix": [1]}, "plan": {"tp": 8, "odd/key~": 1}})";
  const std::string b =
      R"({"model": "y", "workload": {"images": [{"count": 2}]}, "plan": {"tp": 8, "odd/key~": {"z": 2}}, "what_if": {"f": 3}})";
  const JsonDocument of_a = ParseJson(a, "a.json"), of_b = ParseJson(b, "b.json");
  const std::vector<KeyChange> changes = DiffScenarios(of_a.root, of_b.root);
  REQUIRE(changes.size() == 5);
  JsonDocument document = of_a;
  for (const KeyChange& change : changes) ApplyChange(change, true, &document);
  CHECK(DiffScenarios(document.root, of_b.root).empty());
  for (const KeyChange& change : changes) ApplyChange(change, false, &document);
  CHECK(DiffScenarios(document.root, of_a.root).size() <= 1);  // an empty "what_if" may stay
  CHECK(document.root.Find("what_if")->members().empty());
}

TEST_CASE("a message about a value that was put in names it") {
  JsonDocument document = Shipped("llava-1.6-7b-finetune-8xa100");
  const JsonDocument other =
      Changed(document, {"plan.vision={\"tp\": 3, \"placement\": \"nowhere\"}"});
  for (const KeyChange& change : DiffScenarios(document.root, other.root))
    ApplyChange(change, true, &document);
  try {
    ReadScenario(document, Inputs());
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(error.diagnostic().where.file.find("plan.vision.") != std::string::npos);
  }
}

TEST_CASE(
    "the profile of a cluster and the default stack are told where a scenario leaves them out") {
  JsonDocument document = Shipped("llava-1.6-7b-finetune-8xa100");
  TellDefaults("a100", &document);
  CHECK(document.root.Find("profile")->AsString() == "a100");
  CHECK(document.root.Find("stack")->AsString() == "pytorch-fsdp");
  // Telling them changes no step.
  CHECK(EvaluateDocument(document).outcome.signature ==
        EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100")).outcome.signature);
  JsonDocument bare = ParseJson(R"({"cluster": "8xh100-hgx", "plan": {}})", "bare.json");
  TellDefaults("h100", &bare);
  CHECK(bare.root.Find("stack")->AsString() == "megatron-core");
  CHECK(bare.root.members()[1].first == "profile");
}

TEST_CASE("many differences are grouped by section") {
  std::vector<KeyChange> changes;
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    changes.push_back({"/plan/m" + n + "/tp", "plan.m" + n + ".tp", Json(1), Json(2)});
    changes.push_back({"/plan/m" + n + "/pp", "plan.m" + n + ".pp", Json(1), Json(2)});
  }
  CHECK(GroupChanges(changes, 64).size() == 40);
  const auto sections = GroupChanges(changes, 32);
  REQUIRE(sections.size() == 20);
  CHECK(sections.front().path == "plan.m0");
  CHECK(sections.front().changes.size() == 2);
  CHECK(GroupChanges(changes, 3).size() == 1);
}

TEST_CASE("values are shown short") {
  CHECK(ShowValue(Json("zero1")) == "zero1");
  CHECK(ShowValue(Json(8)) == "8");
  CHECK(ShowValue(std::nullopt) == "(not told)");
  CHECK(ShowValue(Json(std::string(100, 'x'))).size() == 40);
}

}  // namespace
}  // namespace aurum
