#include "sim/study/design.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/study/fingerprint.h"
#include "sim/study/point.h"
#include "sim/study/point_list.h"
#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

JsonDocument Sweep(const std::string& section) {
  return ParseJson("{\"model\": \"m\", \"a\": 0,\n\"sweep\": {" + section + "}}", "s.json");
}
Design DesignOf(const std::string& section) { return ReadDesign(Sweep(section)); }
Diagnostic ErrorOf(const std::string& section) {
  return ThrownBy([&] { DesignOf(section); });
}
std::vector<std::string> Points(const Design& design) {
  std::vector<std::string> points;
  for (std::size_t i = 0; i < design.points(); ++i)
    points.push_back(Json::Array(design.Values(i)).Dump());
  return points;
}
std::vector<double> Column(const Design& design, std::size_t axis) {
  std::vector<double> values;
  for (std::size_t i = 0; i < design.points(); ++i)
    values.push_back(design.Values(i)[axis].AsNumber());
  return values;
}
std::set<std::string> Ids(const Design& design) {
  const JsonDocument scenario = Sweep("");
  PointCursor cursor(scenario, design);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < design.points(); ++i) {
    cursor.MoveTo(i);
    ids.insert(cursor.id().Hex());
  }
  return ids;
}
Design Commanded(const std::string& section, const DesignOptions& options) {
  return SweepDesign(Sweep(section), options);
}

const char* kTwoAxes =
    R"("axes": [{"path": "a", "values": [1, 2, 3]}, {"path": "b", "values": ["x", "y", "z"]}])";
const char* kRanges =
    R"("axes": [{"path": "a", "from": 1, "to": 1000, "scale": "log"}, {"path": "b", "from": -1, "to": 1},
        {"path": "n", "from": 2, "to": 9, "integer": true}, {"path": "c", "values": ["x", "y", "z"]}])";

std::string Drawn(const std::string& kind, int points, const std::string& more = "") {
  return std::string(kRanges) + R"(, "design": {"kind": ")" + kind + R"(", "points": )" +
         std::to_string(points) + more + "}";
}

TEST_CASE("a grid is every combination, the last axis fastest") {
  const Design grid = DesignOf(kTwoAxes);
  CHECK(grid.IsGrid());
  CHECK(grid.points() == 9);
  CHECK(Points(grid)[0] == R"([1,"x"])");
  CHECK(Points(grid)[1] == R"([1,"y"])");
  CHECK(Points(grid)[8] == R"([3,"z"])");
  CHECK(grid.Rows(5) == std::vector<std::size_t>{1, 2});
  CHECK(DesignOf(std::string(kTwoAxes) + R"(, "design": "grid")").SpecJson().Dump() == "\"grid\"");
  CHECK(Design().points() == 1);
  CHECK(Design().Values(0).empty());
  CHECK(ReadDesign(ParseJson("{}", "s")).points() == 1);
}

TEST_CASE("zipped axes walk together, the others are crossed with them") {
  CHECK(Points(DesignOf(std::string(kTwoAxes) + R"(, "design": "zip")")) ==
        std::vector<std::string>{R"([1,"x"])", R"([2,"y"])", R"([3,"z"])"});
  // The zip stands where its first axis does; an axis may repeat a value that another one tells apart.
  const Design zip = DesignOf(
      R"("axes": [{"path": "a", "values": [1, 1, 2]}, {"path": "c", "values": [7, 8]}, {"path": "b", "values": [1, 2, 1]}],
         "design": {"kind": "zip", "zip": [["b", "/a"]]})");
  CHECK(zip.kind() == DesignKind::kZip);
  CHECK(Points(zip) ==
        std::vector<std::string>{"[1,7,1]", "[1,8,1]", "[1,7,2]", "[1,8,2]", "[2,7,1]", "[2,8,1]"});
  CHECK(zip.SpecJson().Dump() == R"({"kind":"zip","zip":[["a","b"]]})");
  // The same row again is the same point, and counts once.
  const Design twice = DesignOf(
      R"("axes": [{"path": "a", "values": [1, 2, 1]}, {"path": "b", "values": [3, 4, 3]}], "design": "zip")");
  CHECK(Points(twice) == std::vector<std::string>{"[1,3]", "[2,4]"});
  CHECK(twice.dropped() == 1);
}

TEST_CASE("a list of points is a zip of its columns; other axes are crossed with it") {
  const Design list = DesignOf(
      R"("axes": [{"path": "c", "values": [5, 6]}, {"path": "a", "values": [9]}],
         "design": {"kind": "list", "points": [{"a": 1, "b": {"x": 1}}, {"b": "w", "a": 2.0}]})");
  CHECK(Points(list) == std::vector<std::string>{R"([1,{"x":1},5])", R"([1,{"x":1},6])",
                                                 R"([2,"w",5])", R"([2,"w",6])"});
  const Design again =
      DesignOf(R"("axes": )" + list.AxesJson().Dump() + R"(, "design": )" + list.SpecJson().Dump());
  CHECK(Points(again) == Points(list));
  const Diagnostic other = ErrorOf(
      "\"design\": {\"kind\": \"list\", \"points\": [{\"a\": 1, \"b\": 2},\n{\"a\": 1, \"c\": "
      "2}]}");
  CHECK(other.code == 711);
  CHECK(other.where.line == 3);
  CHECK(other.where.pointer == "/sweep/design/points/1");
  CHECK(other.message.find("'b'") != std::string::npos);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": [{"a": 1}, {"a": 1, "c": 2}]})").code ==
        711);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": []})").code == 711);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": [1]})").code == 711);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": {"a": 1}})").code == 711);
  CHECK(ErrorOf(R"("design": {"kind": "list"})").code == 710);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": [{"a": 1}], "file": "x.csv"})").code ==
        710);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": [{"a": 1, "a.b": 2}]})").code == 706);
  CHECK(ErrorOf(R"("design": {"kind": "list", "points": [{"sweep.axes": 1}]})").code == 701);
}

TEST_CASE("files of points: a table, an array, lines") {
  const Scratch scratch;
  WriteBytes(scratch.File("p.csv"),
             "a, plan.b,/c\r\n1,word,\"{\"\"x\"\": [1, 2]}\"\r\n\r\n 2.0 ,\"two, words\",true\r\n");
  WriteBytes(
      scratch.File("p.json"),
      R"([{"a": 1, "plan.b": "word", "/c": {"x": [1, 2]}}, {"a": 2, "plan.b": "two, words", "/c": true}])");
  WriteBytes(scratch.File("p.jsonl"),
             "{\"a\": 1, \"plan.b\": \"word\", \"/c\": {\"x\": [1, 2]}}\n\n"
             "{\"a\": 2, \"plan.b\": \"two, words\", \"/c\": true}\n");
  const std::vector<std::string> expected = {R"([1,"word",{"x":[1,2]}])",
                                             R"([2,"two, words",true])"};
  for (const char* name : {"p.csv", "p.json", "p.jsonl"}) {
    DesignOptions options;
    options.points = scratch.File(name);
    const Design design = Commanded("", options);
    CHECK(Points(design) == expected);
    // In the scenario the file lies beside it.
    const JsonDocument scenario = ParseJson(
        R"({"sweep": {"design": {"kind": "list", "file": ")" + std::string(name) + "\"}}}",
        scratch.File("scenario.json"));
    CHECK(Points(ReadDesign(scenario)) == expected);
  }
  const auto error = [&](const std::string& name, const std::string& text) {
    WriteBytes(scratch.File(name), text);
    return ThrownBy([&] { ReadPointFile(scratch.File(name)); });
  };
  const Diagnostic short_line = error("x.csv", "a,b\n1,2\n\n3\n");
  CHECK(short_line.code == 711);
  CHECK(short_line.where.line == 4);
  const Diagnostic infinite = error("x.csv", "a,b\n1,inf\n");
  CHECK(infinite.code == 704);
  CHECK(infinite.where.line == 2);
  CHECK(infinite.message.find("'b'") != std::string::npos);
  CHECK(error("x.csv", "a,b\n1,\n").code == 702);
  CHECK(error("x.csv", "a,b\n1,\"2\n").code == 711);
  CHECK(error("x.csv", "a,b\n1,\"2\"3\n").code == 711);
  CHECK(error("x.csv", "a,b\n").code == 711);
  CHECK(error("x.csv", "").code == 711);
  CHECK(error("x.jsonl", "{\"a\": 1}\n{\"a\": }\n").where.line == 2);
  CHECK(error("x.jsonl", "").code == 711);
  CHECK(error("x.json", "{\"a\": 1}").code == 711);
  CHECK(error("x.txt", "a\n1\n").code == 711);
  CHECK(ThrownBy([&] { ReadPointFile(scratch.File("none.csv")); }).code == 201);
}

TEST_CASE("random points are uniform on their scale, all different, and a study of them can grow") {
  const Design design = DesignOf(Drawn("random", 4000, R"(, "seed": 7)"));
  CHECK(design.kind() == DesignKind::kRandom);
  CHECK(Ids(design).size() == 4000);
  const std::vector<double> a = Column(design, 0), b = Column(design, 1), n = Column(design, 2);
  // Half of a logarithmic range lies below its geometric mean, half of a linear one below its middle;
  // four standard deviations of a share of 4000 are 0.032.
  const auto below = [](const std::vector<double>& values, double limit) {
    return static_cast<double>(
               std::count_if(values.begin(), values.end(), [&](double v) { return v < limit; })) /
           static_cast<double>(values.size());
  };
  CHECK(std::abs(below(a, std::sqrt(1000.0)) - 0.5) < 0.032);
  CHECK(std::abs(below(a, std::pow(1000.0, 0.25)) - 0.25) < 0.032);
  CHECK(std::abs(below(b, 0) - 0.5) < 0.032);
  std::map<double, int> counts;
  for (const double value : n) {
    CHECK(value == std::floor(value));
    ++counts[value];
  }
  CHECK(counts.size() == 8);
  CHECK(counts.begin()->first == 2);
  CHECK(counts.rbegin()->first == 9);
  for (const auto& [value, count] : counts) CHECK(std::abs(count - 500) < 100);
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    product += (std::log(a[i]) / std::log(1000.0) - 0.5) * b[i];
  CHECK(std::abs(product / 4000) < 0.012);  // independent: 4 deviations of a mean of 4000

  // Fewer of them are the first ones; another seed has others.
  const std::vector<std::string> all = Points(design);
  const std::vector<std::string> few = Points(DesignOf(Drawn("random", 50, R"(, "seed": 7)")));
  CHECK(std::equal(few.begin(), few.end(), all.begin()));
  CHECK(Points(DesignOf(Drawn("random", 50, R"(, "seed": 8)"))) != few);
  // An axis more leaves the values of the others alone, so does another order.
  const Design other = DesignOf(
      R"("axes": [{"path": "b", "from": -1, "to": 1}, {"path": "z", "values": [1, 2]}, {"path": "a", "from": 1, "to": 1000, "scale": "log"}],
         "design": {"kind": "random", "points": 50, "seed": 7})");
  CHECK(std::equal(a.begin(), a.begin() + 50, Column(other, 2).begin()));
}

TEST_CASE("values that were drawn once stay: a study resumes on another machine and another day") {
  const Design design = DesignOf(Drawn("random", 3, R"(, "seed": 1)"));
  const Design cube = DesignOf(Drawn("lhs", 3, R"(, "seed": 1)"));
  CHECK(design.drawn().Hex() == DesignOf(Drawn("random", 3)).drawn().Hex());
  CHECK(!(design.drawn() == cube.drawn()));
  const auto join = [](const std::vector<std::string>& points) {
    std::string text;
    for (const std::string& point : points) text += point;
    return text;
  };
  CHECK(join(Points(design)) ==
        R"([1.03927,-0.907925,8,"z"][3.8435,-0.357896,9,"x"][4.17199,0.846232,2,"z"])");
  CHECK(join(Points(cube)) ==
        R"([10.1292,0.364025,4,"x"][1.56642,-0.119299,7,"y"][160.983,-0.384589,2,"z"])");
}

TEST_CASE("a Latin hypercube visits every stratum of every axis once") {
  for (const int points : {1, 2, 7, 100}) {
    const Design design = DesignOf(Drawn("lhs", points, R"(, "seed": 3)"));
    CHECK(design.kind() == DesignKind::kLatinHypercube);
    REQUIRE(design.points() == static_cast<std::size_t>(points));
    CHECK(Ids(design).size() == static_cast<std::size_t>(points));
    std::set<int> strata_a, strata_b;
    for (const double a : Column(design, 0))
      strata_a.insert(static_cast<int>(std::log(a) / std::log(1000.0) * points * (1 - 1e-9)));
    for (const double b : Column(design, 1))
      strata_b.insert(static_cast<int>((b + 1) / 2 * points * (1 - 1e-9)));
    CHECK(strata_a.size() == static_cast<std::size_t>(points));
    CHECK(strata_b.size() == static_cast<std::size_t>(points));
    // Eight whole numbers and three words, as evenly as the number of points allows.
    std::map<double, int> whole;
    for (const double n : Column(design, 2)) ++whole[n];
    std::map<std::string, int> words;
    for (std::size_t i = 0; i < design.points(); ++i) ++words[design.Values(i)[3].AsString()];
    for (const auto& [n, count] : whole) CHECK(std::abs(count - points / 8.0) < 1);
    for (const auto& [word, count] : words) CHECK(std::abs(count - points / 3.0) < 1);
  }
}

TEST_CASE("choices that meet are told apart without leaving the strata") {
  // 12 points of 4 x 5 combinations: independent permutations would make some equal.
  const Design design = DesignOf(
      R"("axes": [{"path": "a", "values": [1, 2, 3, 4]}, {"path": "b", "values": [1, 2, 3, 4, 5]}],
         "design": {"kind": "lhs", "points": 12, "seed": 5})");
  CHECK(Ids(design).size() == 12);
  std::map<double, int> a;
  for (const double value : Column(design, 0)) ++a[value];
  for (const auto& [value, count] : a) CHECK(count == 3);

  const auto random = [](int points) {
    return R"("axes": [{"path": "a", "values": [1, 2, 3, 4]}, {"path": "b", "values": [1, 2, 3, 4, 5]}],
         "design": {"kind": "random", "points": )" +
           std::to_string(points) + "}";
  };
  CHECK(Ids(DesignOf(random(20))).size() == 20);  // all there are
  const std::vector<std::string> twenty = Points(DesignOf(random(20)));
  const std::vector<std::string> ten = Points(DesignOf(random(10)));
  CHECK(std::equal(ten.begin(), ten.end(), twenty.begin()));
  const Diagnostic few = ErrorOf(random(21));
  CHECK(few.code == 713);
  CHECK(few.where.pointer == "/sweep/design/points");
  CHECK(few.message.find("20 combinations") != std::string::npos);
}

TEST_CASE("axes that are crossed are not drawn: each of their values sees the same points") {
  const Design design = DesignOf(
      R"("axes": [{"path": "m", "values": ["p", "q"]}, {"path": "a", "from": 0, "to": 1}, {"path": "k", "values": [1, 2, 3]}],
         "design": {"kind": "lhs", "points": 5, "seed": 2, "cross": ["m", "k"]})");
  CHECK(design.points() == 2 * 5 * 3);
  std::map<std::string, std::vector<double>> seen;
  for (std::size_t i = 0; i < design.points(); ++i) {
    const std::vector<Json> values = design.Values(i);
    seen[values[0].AsString() + values[2].Dump()].push_back(values[1].AsNumber());
  }
  CHECK(seen.size() == 6);
  for (const auto& [key, values] : seen) CHECK(values == seen.begin()->second);
  const Design again = DesignOf(R"("axes": )" + design.AxesJson().Dump() + R"(, "design": )" +
                                design.SpecJson().Dump());
  CHECK(Points(again) == Points(design));
  CHECK(again.drawn() == design.drawn());
}

TEST_CASE("the same point has the same id in every design over the same paths") {
  const std::set<std::string> grid = Ids(DesignOf(kTwoAxes));
  const std::set<std::string> zip = Ids(DesignOf(std::string(kTwoAxes) + R"(, "design": "zip")"));
  const std::set<std::string> list =
      Ids(DesignOf(R"("design": {"kind": "list", "points": [{"/b": "y", "a": 2.0}]})"));
  const std::set<std::string> drawn = Ids(DesignOf(
      std::string(kTwoAxes) + R"(, "design": {"kind": "random", "points": 9, "seed": 4})"));
  CHECK(drawn == grid);
  CHECK(std::includes(grid.begin(), grid.end(), zip.begin(), zip.end()));
  CHECK(std::includes(zip.begin(), zip.end(), list.begin(), list.end()));
}

TEST_CASE("what no design can be points at its place") {
  const Diagnostic unknown =
      ErrorOf(std::string(kTwoAxes) + R"(, "design": {"kind": "zip", "zip": [["a", "bb"]]})");
  CHECK(unknown.code == 710);
  CHECK(unknown.where.pointer == "/sweep/design/zip");
  const auto error = [](const std::string& design) {
    return ErrorOf(std::string(kTwoAxes) + ", \"design\": " + design).code;
  };
  CHECK(error("\"cube\"") == 108);
  CHECK(error("7") == 103);
  CHECK(error(R"({"kind": "cube"})") == 108);
  CHECK(error(R"({})") == 102);
  CHECK(error(R"({"kind": "grid", "seed": 1})") == 101);
  CHECK(error(R"({"kind": "random"})") == 102);
  CHECK(error(R"({"kind": "random", "points": 0})") == 107);
  CHECK(error(R"({"kind": "random", "points": 5, "seed": -1})") == 107);
  CHECK(error(R"({"kind": "random", "points": 5, "cross": ["a", "b"]})") == 710);
  CHECK(error(R"({"kind": "random", "points": 5, "cross": ["a", "/a"]})") == 710);
  CHECK(error(R"({"kind": "zip", "zip": [["a"], ["a", "b"]]})") == 710);
  CHECK(error(R"({"kind": "zip", "zip": "a"})") == 103);
  CHECK(error(R"({"kind": "zip", "zip": [[]]})") == 103);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "values": [1]}, {"path": "b", "values": [1, 2]}], "design": "zip")")
          .code == 712);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "values": [1, 1]}, {"path": "b", "values": [1, 2]}, {"path": "c", "values": [1, 1]}],
                   "design": {"kind": "zip", "zip": [["a", "b"]]})")
          .code == 707);
  CHECK(ErrorOf(R"("axes": [{"path": "a", "from": 1, "to": 2}])").code == 701);
  CHECK(ErrorOf(R"("axes": [{"path": "a", "from": 1, "to": 2}], "design": "zip")").code == 701);
  CHECK(ErrorOf(R"("axes": [{"path": "m", "from": 1, "to": 2}, {"path": "a", "from": 1, "to": 2}],
                   "design": {"kind": "lhs", "points": 3, "cross": ["m"]})")
            .code == 701);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "from": 2, "to": 1}], "design": {"kind": "lhs", "points": 3})")
          .code == 703);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "from": 0, "to": 1, "scale": "log"}], "design": {"kind": "lhs", "points": 3})")
          .code == 703);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "from": 0.5, "to": 2, "integer": true}], "design": {"kind": "lhs", "points": 3})")
          .code == 703);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "from": 1, "to": 9, "count": 3, "integer": true}], "design": {"kind": "lhs", "points": 3})")
          .code == 701);
  CHECK(
      ErrorOf(
          R"("axes": [{"path": "a", "values": [1, 1]}], "design": {"kind": "random", "points": 1})")
          .code == 707);
  CHECK(ErrorOf(R"("axes": [{"path": "a", "from": 0, "to": 1}, {"path": "b", "values": [1, 2]}],
                   "design": {"kind": "lhs", "points": 9000000, "cross": ["b"]})")
            .code == 705);
}

TEST_CASE("a command line says another design than the scenario") {
  DesignOptions options;
  options.vary = {"a=1:100:log", "n=1:8:int", "w=x,y"};
  options.kind = "lhs";
  options.points = "16";
  options.seed = 9;
  options.cross = {"w"};
  const Design design = Commanded("", options);
  CHECK(design.points() == 32);
  CHECK(design.axes()[0].range->log);
  CHECK(design.axes()[1].range->integer);
  CHECK(design.SpecJson().Dump() == R"({"kind":"lhs","points":16,"seed":9,"cross":["w"]})");
  CHECK(design.Describe() == "16 points of a Latin hypercube (seed 9) × 2 values of w");

  DesignOptions more;
  more.points = "20";
  CHECK(Commanded(Drawn("random", 5, R"(, "seed": 7)"), more).SpecJson().Dump() ==
        R"({"kind":"random","points":20,"seed":7})");
  more.kind = "lhs";
  CHECK(Commanded(Drawn("random", 5, R"(, "seed": 7)"), more).kind() ==
        DesignKind::kLatinHypercube);
  DesignOptions zip;
  zip.vary = {"a=1,2,3", "b=x,y,z"};
  zip.zip = {"a, b"};
  CHECK(Commanded("", zip).points() == 3);

  const auto usage = [](const std::string& section, const DesignOptions& wrong) {
    try {
      Commanded(section, wrong);
    } catch (const InputError& error) {
      CHECK(error.exit_code() == ExitCode::kUsage);
      return error.diagnostic().code;
    }
    return 0;
  };
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "cube", .points = "", .seed = {}, .zip = {}, .cross = {}}) ==
        710);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "", .points = "5", .seed = {}, .zip = {}, .cross = {}}) == 710);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "", .points = "", .seed = 5, .zip = {}, .cross = {}}) == 710);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "lhs", .points = "", .seed = {}, .zip = {}, .cross = {}}) ==
        710);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "lhs", .points = "p.csv", .seed = {}, .zip = {}, .cross = {}}) ==
        710);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "list", .points = "", .seed = {}, .zip = {}, .cross = {}}) ==
        710);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "", .points = "", .seed = {}, .zip = {"a,,b"}, .cross = {}}) ==
        710);
  CHECK(usage(kTwoAxes,
              {.vary = {"a=1:9"}, .kind = "", .points = "", .seed = {}, .zip = {}, .cross = {}}) ==
        701);
  CHECK(usage(kTwoAxes,
              {.vary = {}, .kind = "", .points = "", .seed = {}, .zip = {}, .cross = {"a"}}) ==
        710);
}

TEST_CASE(
    "a file that an axis names is found beside the scenario, and its content is part of the "
    "study") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.File("models"));
  const std::string model = FileBytes("models/catalogue/llava-1.6-7b.json");
  REQUIRE(!model.empty());
  WriteBytes(scratch.File("models/own.json"), model);
  const JsonDocument scenario = ParseJson(
      R"({"model": "llava-1.6-7b", "cluster": "8xa100-hgx", "sweep": {"axes": [{"path": "model", "values": ["llava-1.6-7b", "models/own.json"]}]}})",
      scratch.File("scenario.json"));
  const Design design = SweepDesign(scenario, {});
  CHECK(design.Values(1)[0].AsString() == scratch.File("models/own.json"));
  CHECK(design.Values(0)[0].AsString() == "llava-1.6-7b");
  const auto fingerprint = [&](const Design& of) {
    InputCache cache(".");
    return StudyFingerprint(scenario, of, &cache);
  };
  const std::string before = fingerprint(design);
  CHECK(before == fingerprint(design));
  WriteBytes(scratch.File("models/own.json"), model + "\n");
  CHECK(fingerprint(design) == before);  // white space is no content
  std::string changed = model;
  const std::size_t digit = changed.find("4096");
  REQUIRE(digit != std::string::npos);
  changed.replace(digit, 4, "4097");
  WriteBytes(scratch.File("models/own.json"), changed);
  CHECK(fingerprint(design) != before);
  // Also where a whole object of the axis names it.
  WriteBytes(scratch.File("lengths.jsonl"), "{\"text_tokens\": 10}\n");
  const Design objects(
      std::vector<Axis>{ParseVary(R"(workload={"samples": "lengths.jsonl"},{"text_tokens": 3})")});
  const std::string with = fingerprint(objects);
  WriteBytes(scratch.File("lengths.jsonl"), "{\"text_tokens\": 11}\n");
  CHECK(fingerprint(objects) != with);
}

}  // namespace
}  // namespace aurum
