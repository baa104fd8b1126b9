#include "sim/workload/distribution.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "sim/core/random.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Distribution ParseDistribution(const std::string& text, double low = 0, double high = 1e8,
                               bool whole = true) {
  const JsonDocument document = ParseJson(R"({"d": )" + text + "}", "d.json");
  ObjectReader reader(document, document.root, "");
  return ReadDistribution(&reader, "d", low, high, whole);
}

double DrawnMean(const Distribution& d, int draws = 200'000) {
  double sum = 0;
  for (int i = 0; i < draws; ++i) {
    sum += d.Quantile(RandomUniform(7, 1, static_cast<std::uint64_t>(i)));
  }
  return sum / draws;
}

TEST_CASE("the normal distribution function and its inverse") {
  CHECK(NormalQuantile(0.5) == doctest::Approx(0).epsilon(1e-12));
  CHECK(NormalQuantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-13));
  CHECK(NormalQuantile(1e-9) == doctest::Approx(-5.997807015008182).epsilon(1e-12));
  for (const double p : {1e-15, 1e-6, 0.01, 0.3, 0.5, 0.7, 0.99}) {
    CHECK(NormalCumulative(NormalQuantile(p)) == doctest::Approx(p).epsilon(1e-11));
  }
}

TEST_CASE("a uniform distribution of whole numbers takes each of them as often") {
  const Distribution d = ParseDistribution(R"({"uniform": [3, 6]})");
  CHECK(d.Mean() == 4.5);
  CHECK(d.Largest() == 6);
  CHECK(d.Quantile(0.24) == 3);
  CHECK(d.Quantile(0.26) == 4);
  CHECK(d.Quantile(0.999) == 6);
  CHECK(ParseDistribution(R"({"uniform": [5, 5]})").Quantile(0.7) == 5);
  const Distribution seconds = ParseDistribution(R"({"uniform": [1, 2]})", 0, 1e6, false);
  CHECK(seconds.Quantile(0.25) == 1.25);
}

TEST_CASE("means in closed form are those of draws, cut-offs included") {
  for (const char* text :
       {R"({"uniform": [10, 1000]})", R"({"normal": [500, 100]})",
        R"({"normal": [500, 400], "min": 200, "max": 600})", R"({"lognormal": [300, 0.8]})",
        R"({"lognormal": [300, 1.5], "min": 50, "max": 2048})",
        R"({"choice": [[100, 1], [900, 3]]})", "640"}) {
    const Distribution d = ParseDistribution(text);
    CAPTURE(text);
    CHECK(DrawnMean(d) == doctest::Approx(d.Mean()).epsilon(0.01));
    CHECK(d.Quantile(1 - 1e-12) <= d.Largest());
  }
  // exp(σ²/2) times the median, uncut.
  CHECK(ParseDistribution(R"({"lognormal": [300, 0.8]})").Mean() ==
        doctest::Approx(300 * std::exp(0.32)).epsilon(1e-9));
  CHECK(ParseDistribution(R"({"choice": [[100, 1], [900, 3]]})").Mean() == 700);
}

TEST_CASE("percentiles") {
  const Distribution d = ParseDistribution(R"({"normal": [1000, 100]})");
  CHECK(d.Quantile(0.5) == 1000);
  CHECK(d.Quantile(0.99) == std::round(1000 + 100 * 2.3263478740408408));
  CHECK(ParseDistribution(R"({"normal": [1000, 100], "max": 1010})").Quantile(0.99) == 1010);
  CHECK(ParseDistribution(R"({"normal": [10, 100]})").Quantile(0.01) == 0);  // never negative
  const Distribution choice =
      ParseDistribution(R"({"choice": [[9, 0.5], [3, 0.25], [5, 0], [7, 0.25]]})");
  CHECK(choice.Quantile(0.2) == 3);  // in order of value, not of writing
  CHECK(choice.Quantile(0.3) == 7);
  CHECK(choice.Quantile(0.6) == 9);
}

TEST_CASE("what is no distribution is refused where it stands") {
  struct Bad {
    const char* text;
    int code;
    const char* pointer;
    const char* says;
  };
  for (const Bad& bad : {
           Bad{R"({"uniform": [1]})", 620, "/d/uniform", "1 numbers, not two"},
           Bad{R"({"uniform": [5, 1]})", 620, "/d/uniform", "down to"},
           Bad{R"({"uniform": [1, 1e9]})", 620, "/d/uniform", "1e+09"},
           Bad{R"({"uniform": [1.5, 3]})", 620, "/d/uniform", "1.5"},
           Bad{R"({"uniform": [1, 3], "max": 2})", 620, "/d/max", "ends of its own"},
           Bad{R"({"normal": [1, -3]})", 620, "/d/normal", "-3"},
           Bad{R"({"lognormal": [0, 1]})", 620, "/d/lognormal", "median 0"},
           Bad{R"({"normal": [5, 1], "min": 9, "max": 2})", 620, "/d/min", "'min' is 9"},
           Bad{R"({"choice": []})", 620, "/d/choice", "not a list"},
           Bad{R"({"choice": [[1, 2, 3]]})", 620, "/d/choice", "not [value, weight]"},
           Bad{R"({"choice": [[1, 0]]})", 620, "/d/choice", "sum to nothing"},
           Bad{R"({"choice": [[1, -1]]})", 620, "/d/choice", "weight of -1"},
           Bad{R"({"uniform": [1, 2], "normal": [1, 2]})", 620, "/d/normal", "both"},
           Bad{R"({})", 620, "/d", "spread"},
           Bad{R"({"unifrom": [1, 2]})", 101, "/d/unifrom", "unknown key"},
           Bad{R"({"normal": [1, 2], "maximum": 2})", 101, "/d/maximum", "unknown key"},
           Bad{R"("many")", 103, "/d", "a string"},
           Bad{"-4", 620, "/d", "-4"},
           Bad{"0.5", 620, "/d", "0.5"},
       }) {
    CAPTURE(bad.text);
    const Diagnostic d = ThrownBy([&] { ParseDistribution(bad.text); });
    CHECK(d.code == bad.code);
    CHECK(d.where.pointer == bad.pointer);
    CHECK(d.where.line == 1);
    CHECK(d.message.find(bad.says) != std::string::npos);
    CHECK(!d.help.empty());
  }
  CHECK(ThrownBy([] { ParseDistribution(R"({"unifrom": [1, 2]})"); }).help ==
        "did you mean 'uniform'?");
}

}  // namespace
}  // namespace aurum
