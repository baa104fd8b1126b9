#include "sim/workload/distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string>

namespace aurum {
namespace {

double Density(double z) {
  return std::isinf(z) ? 0 : std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
}

std::string Show(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

constexpr const char* kForms =
    "a number, or one of {\"uniform\": [a, b]}, {\"normal\": [mean, sd]}, {\"lognormal\": [median, "
    "sigma]}, {\"choice\": [[value, weight], …]}";

}  // namespace

double NormalCumulative(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// A rational first guess (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.2.23,
// error below 4.5e-4) in the lower half, where the distribution function loses no digits, and
// Newton's steps from there; each squares the error.
double NormalQuantile(double p) {
  if (p > 0.5) return -NormalQuantile(1 - p);
  if (!(p > 0)) return -std::numeric_limits<double>::infinity();
  const double t = std::sqrt(-2 * std::log(p));
  double z = (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
             t;
  for (int step = 0; step < 3; ++step) z -= (NormalCumulative(z) - p) / Density(z);
  return z;
}

Distribution ConstantDistribution(double value) {
  Distribution d;
  d.first = value;
  return d;
}

double Distribution::Quantile(double p) const {
  double value = first;
  switch (kind) {
    case DistributionKind::kConstant:
      return first;
    case DistributionKind::kUniform:
      if (!whole) return first + p * (second - first);
      return std::min(second, first + std::floor(p * (second - first + 1)));
    case DistributionKind::kNormal:
      value = second > 0 ? first + second * NormalQuantile(p) : first;
      break;
    case DistributionKind::kLogNormal:
      value = second > 0 ? first * std::exp(second * NormalQuantile(p)) : first;
      break;
    case DistributionKind::kChoice: {
      const auto found = std::partition_point(
          choices.begin(), choices.end(), [p](const auto& choice) { return choice.second < p; });
      return found == choices.end() ? choices.back().first : found->first;
    }
  }
  return std::clamp(whole ? std::round(value) : value, least, most);
}

double Distribution::Mean() const {
  switch (kind) {
    case DistributionKind::kConstant:
      return first;
    case DistributionKind::kUniform:
      return 0.5 * (first + second);
    case DistributionKind::kNormal: {
      if (second <= 0) return std::clamp(first, least, most);
      const double a = (least - first) / second, b = (most - first) / second;
      const double below = NormalCumulative(a), above = NormalCumulative(-b);
      return least * below + most * above + first * (1 - below - above) +
             second * (Density(a) - Density(b));
    }
    case DistributionKind::kLogNormal: {
      if (second <= 0) return std::clamp(first, least, most);
      const double a = std::log(least / first) / second, b = std::log(most / first) / second;
      const double inside = NormalCumulative(b - second) - NormalCumulative(a - second);
      return least * NormalCumulative(a) + most * NormalCumulative(-b) +
             first * std::exp(0.5 * second * second) * inside;
    }
    case DistributionKind::kChoice: {
      double mean = 0, before = 0;
      for (const auto& [value, cumulative] : choices) {
        mean += value * (cumulative - before);
        before = cumulative;
      }
      return mean;
    }
  }
  return first;
}

double Distribution::Largest() const {
  switch (kind) {
    case DistributionKind::kConstant:
      return first;
    case DistributionKind::kUniform:
      return second;
    case DistributionKind::kNormal:
    case DistributionKind::kLogNormal:
      return second > 0 ? most : std::clamp(first, least, most);
    case DistributionKind::kChoice:
      return choices.back().first;
  }
  return first;
}

Distribution ReadDistribution(ObjectReader* reader, std::string_view key, double low, double high,
                              bool whole) {
  const std::string name(key);
  const Json& value = reader->Value(key);
  Distribution d;
  d.whole = whole;
  d.least = low;
  d.most = high;
  const auto within = [&](const ObjectReader& at, std::string_view where, double number) {
    if (!(number >= low && number <= high)) {
      at.Fail(620, where, "'" + name + "' would be " + Show(number),
              "it must lie in " + Show(low) + " … " + Show(high));
    }
    if (whole && std::floor(number) != number) {
      at.Fail(620, where, "'" + name + "' would be " + Show(number), "it counts whole things");
    }
    return number;
  };
  if (value.IsNumber()) {
    d.first = within(*reader, key, value.AsNumber());
    return d;
  }
  if (!value.IsObject()) {
    reader->Fail(103, key, "'" + name + "' is " + std::string(value.TypeName()),
                 std::string("it must be ") + kForms);
  }
  ObjectReader object = reader->Object(key);
  const std::vector<std::string> forms = {"uniform", "normal", "lognormal", "choice"};
  std::string form;
  for (const std::string& known : forms) {
    if (!object.Has(known)) continue;
    if (!form.empty()) {
      object.Fail(620, known, "'" + name + "' has both '" + form + "' and '" + known + "'",
                  "leave one of them");
    }
    form = known;
  }
  if (form.empty()) {
    for (const char* bound : {"min", "max"}) object.Ignore(bound);
    object.Finish();  // a misspelled form is an unknown key with a suggestion
    object.Fail(620, "", "'" + name + "' says not how it is spread",
                std::string("it must be ") + kForms);
  }
  const auto two = [&] {
    constexpr double kAny = 1e300;
    const std::vector<double> numbers = object.Numbers(form, -kAny, kAny);
    if (numbers.size() != 2) {
      object.Fail(620, form,
                  "'" + form + "' has " + std::to_string(numbers.size()) + " numbers, not two",
                  std::string("'") + name + "' must be " + kForms);
    }
    d.first = numbers[0];
    d.second = numbers[1];
  };
  if (form == "uniform") {
    d.kind = DistributionKind::kUniform;
    two();
    within(object, form, d.first);
    within(object, form, d.second);
    if (d.first > d.second) {
      object.Fail(620, form, "'uniform' goes from " + Show(d.first) + " down to " + Show(d.second),
                  "write the smaller end first");
    }
  } else if (form == "choice") {
    d.kind = DistributionKind::kChoice;
    const Json& list = object.Value(form);
    const auto bad = [&](const std::string& why) {
      object.Fail(620, form, why, "\"choice\": [[value, weight], …] with weights ≥ 0");
    };
    if (!list.IsArray() || list.items().empty()) bad("'choice' is not a list of choices");
    double sum = 0;
    for (const Json& item : list.items()) {
      if (!item.IsArray() || item.items().size() != 2 || !item.items()[0].IsNumber() ||
          !item.items()[1].IsNumber()) {
        bad("'choice' holds something that is not [value, weight]");
      }
      const double weight = item.items()[1].AsNumber();
      if (!(weight >= 0 && weight <= 1e15)) bad("'choice' has a weight of " + Show(weight));
      within(object, form, item.items()[0].AsNumber());
      if (weight > 0) d.choices.emplace_back(item.items()[0].AsNumber(), weight);
      sum += weight;
    }
    if (!(sum > 0)) bad("the weights of 'choice' sum to nothing");
    std::sort(d.choices.begin(), d.choices.end());
    double upto = 0;
    for (auto& choice : d.choices) choice.second = (upto += choice.second) / sum;
    d.choices.back().second = 1;
  } else {
    d.kind = form == "normal" ? DistributionKind::kNormal : DistributionKind::kLogNormal;
    two();
    if (d.second < 0) {
      object.Fail(620, form, "'" + form + "' has a spread of " + Show(d.second),
                  "its second number must not be negative");
    }
    if (d.kind == DistributionKind::kLogNormal && !(d.first > 0 && d.second <= 20)) {
      object.Fail(620, form,
                  "'lognormal' has the median " + Show(d.first) + " and sigma " + Show(d.second),
                  "the median must be above 0; sigma, of the natural logarithm, at most 20");
    }
  }
  const bool bounded =
      d.kind == DistributionKind::kNormal || d.kind == DistributionKind::kLogNormal;
  for (const char* bound : {"min", "max"}) {
    if (!object.Has(bound)) continue;
    if (!bounded) {
      object.Fail(620, bound, "'" + form + "' has ends of its own",
                  std::string("remove '") + bound + "'");
    }
    constexpr double kAny = 1e300;
    const double number = within(object, bound, object.Number(bound, -kAny, kAny));
    (bound[1] == 'i' ? d.least : d.most) = number;
  }
  if (d.least > d.most) {
    object.Fail(620, "min", "'min' is " + Show(d.least) + " and 'max' is " + Show(d.most),
                "min must not be above max");
  }
  object.Finish();
  return d;
}

}  // namespace aurum
