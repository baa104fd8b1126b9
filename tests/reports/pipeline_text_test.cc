#include "reports/pipeline_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/plan/schedule.h"

namespace aurum {
namespace {

// A schedule in time: a forward of a whole stage takes a second, a backward two, transfers nothing.
PipelineDrawing Drawing(const PipelineShape& shape, int columns_a_second) {
  const auto lists = MakeSchedule(shape);
  PipelineDrawing drawing;
  std::map<std::tuple<bool, int, int, int>, double> done;
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<double> free(lists.size(), 0);
  double total = 0;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    drawing.rows.push_back({"stage " + std::to_string(i), {}});
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      for (; next[i] < lists[i].size(); ++next[i]) {
        const Pass& pass = lists[i][next[i]];
        const int stage = static_cast<int>(i);
        const bool backward = pass.kind != PassKind::kForward;
        const auto from =
            backward ? NextOf(shape, stage, pass.chunk) : PreviousOf(shape, stage, pass.chunk);
        double start = free[i];
        if (from) {
          const auto it = done.find({backward, from->stage, from->chunk, pass.micro_batch});
          if (it == done.end()) break;
          start = std::max(start, it->second);
        }
        free[i] = start + (backward ? 2.0 : 1.0) / shape.chunks;
        done[{backward, stage, pass.chunk, pass.micro_batch}] = free[i];
        drawing.rows[i].boxes.push_back(
            {start, free[i], backward ? 'B' : 'F', pass.micro_batch, pass.chunk});
        total = std::max(total, free[i]);
        moved = true;
      }
    }
  }
  drawing.width = static_cast<int>(std::lround(total * columns_a_second)) + 7 + 4 + 6;
  return drawing;
}

// The cells of one row, 20 columns wide.
std::string Row(std::vector<PipelineBox> boxes, double total_s = 20) {
  const std::string text = PipelineText({{{"s", std::move(boxes)}}, 31, total_s});
  const std::size_t at = text.find("s |") + 3;
  return text.substr(at, text.find('|', at) - at);
}

TEST_CASE("1F1B of four stages and eight micro-batches") {
  CHECK(PipelineText(Drawing({ScheduleKind::k1F1B, 4, 1, 8}, 2)) == 1 + R"(
         0         5         10        15        20        25        30 s
         |---------|---------|---------|---------|---------|---------|-----    idle
stage 0 |0-1-2-3-............0###4-1###5-2###6-3###7-4###..5###..6###..7###|  27.3%
stage 1 |..0-1-2-........0###3-1###4-2###5-3###6-4###7-5###..6###..7###....|  27.3%
stage 2 |....0-1-....0###2-1###3-2###4-3###5-4###6-5###7-6###..7###........|  27.3%
stage 3 |......0-0###1-1###2-2###3-3###4-4###5-5###6-6###7-7###............|  27.3%
         - forward   # backward   . idle   number: micro-batch
)");
}

TEST_CASE("interleaved 1F1B of four stages, two chunks and eight micro-batches") {
  CHECK(PipelineText(Drawing({ScheduleKind::kInterleaved, 4, 2, 8}, 4)) == 1 + R"(
         0                   5                   10                  15                  20                  25 s
         |-------------------|-------------------|-------------------|-------------------|-------------------|-------------    idle
stage 0 |0-1-2-3-0-1-2-3-4-5-6-......0b##7-1b##..4-2b##5-3b##6-0a##7-1a##2a##..3a##..4b##..5b##..6b##..7b##4a##5a##6a##7a##|  15.8%
stage 1 |..0-1-2-3-0-1-2-3-4-....0b##5-1b##6-2b##7-3b##4-0a##5-1a##6-2a##7-3a##..4b##..5b##..6b##..7b##4a##5a##6a##7a##....|  15.8%
stage 2 |....0-1-2-3-0-1-2-..0b##3-1b##4-2b##5-3b##6-0a##7-1a##4-2a##5-3a##6-4b##7-5b##..6b##..7b##4a##5a##6a##7a##........|  15.8%
stage 3 |......0-1-2-3-0-0b##1-1b##2-2b##3-3b##4-0a##5-1a##6-2a##7-3a##4-4b##5-5b##6-6b##7-7b##4a##5a##6a##7a##............|  15.8%
         - forward   # backward   . idle   number: micro-batch, letter: chunk
)");
}

TEST_CASE("a box begins with its micro-batch where a column of fill is left") {
  CHECK(Row({{0, 2, 'F', 3, 0}, {2, 4, 'B', 12, 0}, {4, 7, 'B', 12, 0}, {7, 8, 'W', 1, 0}}) ==
        "3-##12#+............");
  CHECK(Row({{0, 3, 'F', 3, 0}, {3, 6, 'F', 3, 1}, {6, 8, 'B', 4, 1}}) == "3a-3b-4#............");
  CHECK(Row({{0, 4, 'O', -1, 0}, {10, 20, 'E', 7, 0}}) == "****......7~~~~~~~~~");
  CHECK(Row({{0, 4, 'e', 1, 0}, {4, 8, 'D', -1, 0}, {8, 10, 'Z', -1, 0}, {10, 12, '\n', -1, 0}}) ==
        "1%%%::::ZZ??........");
}

TEST_CASE("a column shows what took most of its time") {
  // Three boxes in a column: two short forwards outweigh the backward between them.
  CHECK(Row({{0, 0.3, 'F', 0, 0}, {0.3, 0.7, 'B', 0, 0}, {0.7, 1, 'F', 1, 0}}).substr(0, 2) ==
        "-.");
  // Less than half a column of work in an idle one is idle, half of it is work.
  CHECK(Row({{0, 0.4, 'F', 0, 0}, {1, 1.5, 'F', 0, 0}}).substr(0, 3) == ".-.");
  // Equal shares: the earlier.
  CHECK(Row({{0.5, 1, 'B', 0, 0}, {0, 0.5, 'F', 0, 0}}).substr(0, 2) == "-.");
  // A thousand boxes in twenty columns.
  std::vector<PipelineBox> many;
  for (int k = 0; k < 1000; ++k) many.push_back({k * 0.02, (k + 1) * 0.02, 'F', k, 0});
  CHECK(Row(many) == std::string(20, '-'));
}

TEST_CASE("boxes of no length, backwards, beyond the axis or not of numbers do no harm") {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  CHECK(
      Row({{5, 5, 'F', 1, 0}, {7, 6, 'F', 1, 0}, {nan, 3, 'F', 1, 0}, {3, infinite, 'F', 1, 0}}) ==
      std::string(20, '.'));
  CHECK(Row({{-5, 2, 'F', 1, 0}, {18, 99, 'B', 2, 0}, {50, 60, 'F', 3, 0}}) ==
        "1-................2#");
  const std::string nothing = "No stage ran: nothing to draw.\n";
  CHECK(PipelineText({}) == nothing);
  CHECK(PipelineText({{{"stage 0", {}}}, 80, 0}) == nothing);
  CHECK(PipelineText({{{"stage 0", {{0, 0, 'F', 0, 0}}}}, 80, nan}) == nothing);
  CHECK(PipelineText({{{"stage 0", {{0, 5e-324, 'F', 0, 0}}}}, 80, 0}) == nothing);
  CHECK(PipelineText({{{"stage 0", {{0, 1e308, 'F', 0, 0}}}}, 80, 0}).find("0-----") !=
        std::string::npos);
  // A legend of what is drawn alone.
  const std::string text = PipelineText({{{"s", {{0, 1, 'F', 0, 0}, {1, 1, 'W', 0, 0}}}}, 80, 1});
  CHECK(text.find("forward") != std::string::npos);
  CHECK(text.find("weight") == std::string::npos);
}

TEST_CASE("every line keeps to the width, and no width is too small or too large") {
  for (const int width : {-5, 0, 1, 40, 80, 200, 1000000000}) {
    PipelineDrawing drawing = Drawing({ScheduleKind::k1F1B, 2, 1, 3}, 2);
    drawing.width = width;
    const std::string text = PipelineText(drawing);
    const std::size_t at = text.find("stage 0");
    const std::size_t line = text.find('\n', at) - at;
    CHECK(line == std::clamp(static_cast<std::size_t>(std::max(width, 0)), std::size_t{33},
                             std::size_t{4113}));
  }
}

TEST_CASE("the scale is in a unit in which the axis is at least one long") {
  const auto scale = [](double total_s) {
    const std::string text = PipelineText({{{"s", {{0, total_s, 'F', 0, 0}}}}, 61, total_s});
    return text.substr(0, text.find('\n'));
  };
  CHECK(scale(50) == "   0         10        20        30        40 s");
  CHECK(scale(0.05) == "   0         10        20        30        40 ms");
  CHECK(scale(5e-6) == "   0         1         2         3         4 us");
  CHECK(scale(1) == "   0         0.2       0.4       0.6       0.8 s");
  CHECK(scale(3e6) == "   0                1000000         2000000 s");
}

TEST_CASE("more rows than a screen has are counted, not drawn") {
  PipelineDrawing drawing;
  for (int i = 0; i < 67; ++i)
    drawing.rows.push_back({"stage " + std::to_string(i), {{0, 1, 'F', 0, 0}}});
  const std::string text = PipelineText(drawing);
  CHECK(text.find("stage 63 |") != std::string::npos);
  CHECK(text.find("stage 64 |") == std::string::npos);
  CHECK(text.find("... 3 more rows are not drawn\n") != std::string::npos);
  drawing.rows.resize(64);
  CHECK(PipelineText(drawing).find("not drawn") == std::string::npos);
}

TEST_CASE("idle is what no box covers, however they overlap") {
  const std::string text =
      PipelineText({{{"s", {{0, 4, 'F', 0, 0}, {2, 5, 'B', 0, 0}, {3, 4, 'B', 1, 0}}}}, 60, 8});
  CHECK(text.find(" 37.5%\n") != std::string::npos);
}

}  // namespace
}  // namespace aurum
