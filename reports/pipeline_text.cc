#include "reports/pipeline_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

namespace aurum {
namespace {

constexpr std::size_t kLongestName = 24;
constexpr int kFewestColumns = 16, kMostColumns = 4096;
constexpr int kIdleColumns = 6;  // "100.0%"
// Shorter than this, a column's width in seconds would lose its digits.
constexpr double kShortestAxis = 1e-100;

struct Kind {
  char letter, fill;
  std::string_view what;
};
constexpr std::array<Kind, 7> kKinds{{
    {'F', '-', "forward"},
    {'B', '#', "backward"},
    {'W', '+', "weight gradient"},
    {'E', '~', "encoder forward"},
    {'e', '%', "encoder backward"},
    {'D', ':', "decode"},
    {'O', '*', "optimizer"},
}};
constexpr char kIdle = '.';

char FillOf(char letter) {
  for (const Kind& kind : kKinds) {
    if (kind.letter == letter) return kind.fill;
  }
  const bool drawable = (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
  return drawable ? letter : '?';
}

// The part of a box that lies on the axis; nothing where it has no length or is not a number.
std::pair<double, double> OnAxis(const PipelineBox& box, double total) {
  const double start = std::max(box.start_s, 0.0), end = std::min(box.end_s, total);
  return std::isfinite(box.start_s) && std::isfinite(box.end_s) && end > start
             ? std::pair(start, end)
             : std::pair(0.0, 0.0);
}

// Who has each column: the index of a box, or -1 for nobody. The kind that took most of a column has it, and of that kind
// the box that took most; of equals the earlier one, and idle time last.
std::vector<int> Winners(const PipelineRow& row, double total, int columns) {
  struct Part {
    int box;
    double seconds;
  };
  const double width = total / columns;
  std::vector<std::vector<Part>> parts(static_cast<std::size_t>(columns));
  std::vector<int> order(row.boxes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return OnAxis(row.boxes[static_cast<std::size_t>(a)], total).first <
           OnAxis(row.boxes[static_cast<std::size_t>(b)], total).first;
  });
  for (const int index : order) {
    const auto [start, end] = OnAxis(row.boxes[static_cast<std::size_t>(index)], total);
    if (end <= start) continue;
    const int first = std::clamp(static_cast<int>(start / width), 0, columns - 1);
    const int last = std::clamp(static_cast<int>(end / width), 0, columns - 1);
    for (int c = first; c <= last; ++c) {
      const double seconds = std::min(end, (c + 1) * width) - std::max(start, c * width);
      if (seconds > 0) parts[static_cast<std::size_t>(c)].push_back({index, seconds});
    }
  }
  const double tie = 1e-9 * width;  // what rounding may make of equal shares
  std::vector<int> winners(static_cast<std::size_t>(columns), -1);
  for (std::size_t c = 0; c < winners.size(); ++c) {
    std::vector<std::pair<char, double>> kinds;  // at most a handful: searched in a line
    double busy = 0;
    for (const Part& part : parts[c]) {
      const char letter = row.boxes[static_cast<std::size_t>(part.box)].kind;
      auto kind = std::find_if(kinds.begin(), kinds.end(),
                               [&](const auto& known) { return known.first == letter; });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {letter, 0.0});
      kind->second += part.seconds;
      busy += part.seconds;
    }
    double most = 0;
    char winner = 0;
    for (const auto& [letter, seconds] : kinds) {
      if (seconds > most + tie) {
        most = seconds;
        winner = letter;
      }
    }
    if (winner == 0 || width - busy > most + tie) continue;
    double longest = 0;
    for (const Part& part : parts[c]) {
      if (row.boxes[static_cast<std::size_t>(part.box)].kind != winner) continue;
      if (part.seconds > longest + tie) {
        longest = part.seconds;
        winners[c] = part.box;
      }
    }
  }
  return winners;
}

// The share of the axis that no box covers.
double IdleShare(const PipelineRow& row, double total) {
  std::vector<std::pair<double, double>> intervals;
  for (const PipelineBox& box : row.boxes) intervals.push_back(OnAxis(box, total));
  std::sort(intervals.begin(), intervals.end());
  double covered = 0, until = 0;
  for (const auto& [start, end] : intervals) {
    covered += std::max(0.0, end - std::max(start, until));
    until = std::max(until, end);
  }
  return std::clamp(1 - covered / total, 0.0, 1.0);
}

// What stands at the head of a box of so many columns: micro-batch and chunk, or the micro-batch alone where only that
// fits. A column of fill must stay: it alone says what the box is.
std::string Label(const PipelineBox& box, bool with_chunks, std::size_t columns) {
  if (box.micro_batch < 0) return "";
  const std::string number = std::to_string(box.micro_batch);
  const bool lettered = with_chunks && box.chunk >= 0 && box.chunk < 26;
  if (lettered && number.size() + 1 < columns) return number + static_cast<char>('a' + box.chunk);
  return number.size() < columns ? number : "";
}

std::string Cells(const PipelineRow& row, double total, int columns, bool with_chunks) {
  const std::vector<int> winners = Winners(row, total, columns);
  std::string cells(winners.size(), kIdle);
  for (std::size_t c = 0; c < winners.size();) {
    std::size_t end = c + 1;
    while (end < winners.size() && winners[end] == winners[c]) ++end;
    if (winners[c] >= 0) {
      const PipelineBox& box = row.boxes[static_cast<std::size_t>(winners[c])];
      std::fill(cells.begin() + static_cast<std::ptrdiff_t>(c),
                cells.begin() + static_cast<std::ptrdiff_t>(end), FillOf(box.kind));
      const std::string label = Label(box, with_chunks, end - c);
      cells.replace(c, label.size(), label);
    }
    c = end;
  }
  return cells;
}

// One decimal without the library's locale: 0.273 -> "27.3%".
std::string Percent(double share) {
  const int tenths = static_cast<int>(std::lround(share * 1000));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
}

// A tick's value: `number` · 10^exponent without trailing zeros.
std::string Decimal(long long number, int exponent) {
  std::string digits = std::to_string(number);
  if (number == 0) return digits;
  if (exponent >= 0) return digits + std::string(static_cast<std::size_t>(exponent), '0');
  const std::size_t places = static_cast<std::size_t>(-exponent);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  digits.insert(digits.size() - places, ".");
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

// Two lines over the columns: times at round steps, in the unit in which the axis is at least one long, and the ruler.
std::pair<std::string, std::string> Scale(double total, int columns, std::string* unit) {
  double factor = 1;
  *unit = "s";
  if (total < 1e-3) {
    factor = 1e6;
    *unit = "us";
  } else if (total < 1) {
    factor = 1e3;
    *unit = "ms";
  }
  // The smallest step of 1, 2 or 5 times a power of ten that is at least ten columns wide.
  const double least = total * factor * (std::min(10.0, columns / 2.0) / columns);
  int exponent = static_cast<int>(std::floor(std::log10(least)));
  long long digit = 10;
  for (const long long candidate : {1LL, 2LL, 5LL}) {
    if (static_cast<double>(candidate) * std::pow(10.0, exponent) >= least * (1 - 1e-9)) {
      digit = candidate;
      break;
    }
  }
  if (digit == 10) {
    digit = 1;
    ++exponent;
  }
  const double step = static_cast<double>(digit) * std::pow(10.0, exponent);
  std::string labels, ruler(static_cast<std::size_t>(columns), '-');
  for (long long k = 0; k <= columns; ++k) {
    const double at = static_cast<double>(k) * step / (total * factor) * columns;
    if (!(at < columns - 0.5)) break;
    const auto column = static_cast<std::size_t>(std::lround(at));
    ruler[column] = '|';
    const std::string label = Decimal(k * digit, exponent);
    if (k > 0 && labels.size() + 1 > column) continue;  // the label before is too long
    labels.resize(column, ' ');
    labels += label;
  }
  return {labels, ruler};
}

}  // namespace

std::string PipelineText(const PipelineDrawing& drawing) {
  double total = drawing.total_s;
  if (!std::isfinite(total) || total <= 0) {
    total = 0;
    for (const PipelineRow& row : drawing.rows) {
      for (const PipelineBox& box : row.boxes) {
        if (std::isfinite(box.end_s)) total = std::max(total, box.end_s);
      }
    }
  }
  if (drawing.rows.empty() || total < kShortestAxis) return "No stage ran: nothing to draw.\n";

  const std::size_t rows =
      std::min(drawing.rows.size(), static_cast<std::size_t>(kMostPipelineRows));
  std::size_t names = 0;
  bool with_chunks = false;
  std::string letters;  // of the kinds that are drawn, in order of appearance
  for (std::size_t i = 0; i < rows; ++i) {
    names = std::max(names, std::min(drawing.rows[i].name.size(), kLongestName));
    for (const PipelineBox& box : drawing.rows[i].boxes) {
      with_chunks |= box.chunk > 0;
      const auto [start, end] = OnAxis(box, total);
      if (end > start && letters.find(box.kind) == std::string::npos) letters += box.kind;
    }
  }
  const int columns = std::clamp(
      std::clamp(drawing.width, 0, 2 * kMostColumns) - static_cast<int>(names) - 4 - kIdleColumns,
      kFewestColumns, kMostColumns);

  std::string unit;
  const auto [labels, ruler] = Scale(total, columns, &unit);
  const std::string margin(names, ' ');
  std::string text = margin + "  " + labels + " " + unit + "\n";
  text += margin + "  " + ruler + "    idle\n";
  for (std::size_t i = 0; i < rows; ++i) {
    const PipelineRow& row = drawing.rows[i];
    std::string name = row.name.substr(0, kLongestName);
    name.resize(names, ' ');
    std::string idle = Percent(IdleShare(row, total));
    idle.insert(0, idle.size() < kIdleColumns ? kIdleColumns - idle.size() : 0, ' ');
    text += name + " |" + Cells(row, total, columns, with_chunks) + "| " + idle + "\n";
  }
  if (rows < drawing.rows.size()) {
    const std::size_t more = drawing.rows.size() - rows;
    text += "... " + std::to_string(more) + (more == 1 ? " more row is" : " more rows are") +
            " not drawn\n";
  }
  std::string legend;
  for (const Kind& kind : kKinds) {
    if (letters.find(kind.letter) == std::string::npos) continue;
    legend += std::string(1, kind.fill) + " " + std::string(kind.what) + "   ";
  }
  for (const char letter : letters) {
    const bool known = std::any_of(kKinds.begin(), kKinds.end(),
                                   [&](const Kind& kind) { return kind.letter == letter; });
    if (!known) legend += std::string(1, FillOf(letter)) + " other   ";
  }
  text += margin + "  " + legend + kIdle + " idle   number: micro-batch" +
          (with_chunks ? ", letter: chunk" : "") + "\n";
  return text;
}

}  // namespace aurum
