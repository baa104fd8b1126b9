// Where AURUM_UPDATE_GOLDEN is set, writes docs/published-plans.md (minutes); else ranks again some of its rows whose
// spaces are small.

#include "sim/search/published_plans.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace aurum {
namespace {

constexpr const char* kPage = "docs/published-plans.md";
constexpr std::uint64_t kSmall = 7000;  // combinations of a space that a test searches

std::vector<PublishedPlan> Shipped(InputCache* cache) {
  const PublishedSources sources = OpenPublishedSources(".");
  std::vector<PublishedPlan> all;
  for (const char* file :
       {"calibrate/published/training.json", "calibrate/published/training_mm.json"}) {
    std::vector<PublishedPlan> plans =
        CompletePlans(ReadRecords(ReadJsonFile(file), nullptr), sources, ".", cache);
    std::move(plans.begin(), plans.end(), std::back_inserter(all));
  }
  return all;
}
std::string Page() {
  std::ifstream file(kPage);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_CASE("the page of published plans is what the search finds") {
  InputCache cache(".");
  const std::vector<PublishedPlan> published = Shipped(&cache);
  REQUIRE(published.size() > 150);
  if (const char* update = std::getenv("AURUM_UPDATE_GOLDEN");
      update != nullptr && *update != '\0') {
    std::vector<PlanRank> ranks(published.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < published.size(); i = next++) {
        const auto begin = std::chrono::steady_clock::now();
        ranks[i] = RankOf(published[i], &cache);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (std::getenv("AURUM_PROGRESS") != nullptr) {
          std::fprintf(stderr, "%zu/%zu %.1f s %llu of %llu %s\n", i + 1, published.size(),
                       took.count(), static_cast<unsigned long long>(ranks[i].simulations),
                       static_cast<unsigned long long>(ranks[i].combinations),
                       PublishedPlanLine(published[i], ranks[i]).c_str());
        }
      }
    };
    std::thread other(work);
    work();
    other.join();
    std::ofstream(kPage) << PublishedPlansPage(published, ranks);
    return;
  }
  const std::string page = Page();
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < published.size(); ++i)
    if (published[i].combinations <= kSmall) small.push_back(i);
  REQUIRE(small.size() > 50);
  // A dozen, evenly taken.
  for (std::size_t k = 0; k < small.size(); k += small.size() / 12) {
    const std::size_t i = small[k];
    const std::string line = PublishedPlanLine(published[i], RankOf(published[i], &cache));
    CAPTURE(line);
    CHECK(page.find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("every configuration that is complete has its row, once") {
  InputCache cache(".");
  const std::string page = Page();
  for (const PublishedPlan& plan : Shipped(&cache)) {
    CAPTURE(plan.ids.front());
    const std::size_t at = page.find("\n| " + plan.ids.front() + " ");
    REQUIRE(at != std::string::npos);
    CHECK(page.find("\n| " + plan.ids.front() + " |", at + 1) == std::string::npos);
  }
}

TEST_CASE(
    "a plan that the search finds to be the best is ranked first, and a worse one behind it") {
  InputCache cache(".");
  for (const PublishedPlan& plan : Shipped(&cache)) {
    if (plan.combinations > 1300) continue;
    const Scenario scenario = ReadScenario(plan.document, &cache);
    const PlanRank told = RankOf(plan, &cache, 20);
    if (!told.failed.empty() || told.rank == 1) continue;
    // The best plan in the place of the published one.
    SearchOptions options;
    options.accept_at_risk = true;
    options.jobs = 1;
    const SearchReport report = Search(plan.document, DefaultSpace(scenario), &cache, options);
    PublishedPlan better = plan;
    for (const std::string& set : report.best.front().set) ApplyOverride(&better.document, set);
    const PlanRank first = RankOf(better, &cache, 20);
    CHECK(first.failed.empty());
    CHECK(first.rank == 1);
    CHECK(first.Gain() == 0);
    CHECK(first.step_s == told.best_step_s);
    CHECK(told.Gain() > 0);
    return;
  }
  FAIL("no published plan that is not the best of a small space");
}

}  // namespace
}  // namespace aurum
