#include "sim/study/point_list.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

constexpr const char* kObjects = R"(each point is an object: {"plan.micro_batch_size": 1})";

// A line of a table, or what is known of it.
struct TableLine {
  int number = 0;  // in the file, from 1
  std::vector<std::string> cells;
};

[[noreturn]] void FailAt(const std::string& file, int line, int code, std::string message,
                         std::string help) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.where.file = file;
  d.where.line = line;
  d.where.column = 1;
  throw InputError(std::move(d));
}

// RFC 4180: cells between commas; a cell in double quotes holds anything, a quote in it is doubled.
std::vector<TableLine> SplitTable(const std::string& text, const std::string& file) {
  std::vector<TableLine> lines;
  int number = 1;
  std::size_t i = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  while (i < text.size()) {
    TableLine line;
    line.number = number;
    bool quoted_any = false;
    for (bool more = true; more;) {
      std::string cell;
      while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
      if (i < text.size() && text[i] == '"') {
        quoted_any = true;
        for (++i;; ++i) {
          if (i >= text.size())
            FailAt(file, line.number, 711, "a quote is never closed", "close it with \"");
          if (text[i] == '\n') ++number;
          if (text[i] != '"') {
            cell += text[i];
          } else if (i + 1 < text.size() && text[i + 1] == '"') {
            cell += text[++i];
          } else {
            ++i;
            break;
          }
        }
        while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
        if (i < text.size() && text[i] != ',' && text[i] != '\n' && text[i] != '\r')
          FailAt(file, number, 711, "text follows a closing quote", "double a quote inside of one");
      } else {
        while (i < text.size() && text[i] != ',' && text[i] != '\n' && text[i] != '\r')
          cell += text[i++];
        while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.pop_back();
      }
      line.cells.push_back(std::move(cell));
      if (i < text.size() && text[i] == '\r') ++i;
      more = i < text.size() && text[i] == ',';
      ++i;  // the comma, or the end of the line
    }
    ++number;
    if (line.cells.size() == 1 && line.cells[0].empty() && !quoted_any) continue;  // an empty line
    lines.push_back(std::move(line));
  }
  return lines;
}

// What spreadsheets write and call text: told by its name, with the way out.
void RefuseOtherEncodings(const std::string& text, const std::string& file) {
  const auto begins = [&](std::string_view bytes) { return text.compare(0, 2, bytes) == 0; };
  if (begins("\xff\xfe") || begins("\xfe\xff") ||
      text.substr(0, 64).find('\0') != std::string::npos) {
    FailAt(file, 1, 711, "the file is text in UTF-16, and points are read as UTF-8",
           "save it as UTF-8, or: iconv -f UTF-16 -t UTF-8 '" + file + "' > points.csv");
  }
  if (text.find('\r') != std::string::npos && text.find('\n') == std::string::npos) {
    FailAt(file, 1, 711, "the lines end with a carriage return alone, as on old Macs",
           "tr '\\r' '\\n' < '" + file + "' > points.csv");
  }
}

// A header of one cell in which another separator stands.
void RefuseOtherSeparators(const TableLine& header, const std::string& file) {
  if (header.cells.size() != 1) return;
  for (const auto& [separator, name, unescaped] :
       {std::tuple(';', "semicolons", ";"), std::tuple('\t', "tabs", "\\t")}) {
    if (header.cells[0].find(separator) == std::string::npos) continue;
    FailAt(file, header.number, 711,
           std::string("the paths are separated by ") + name + ", and a table of points by commas",
           std::string("save it with commas, or, if no cell has a comma: tr '") + unescaped +
               "' ',' < '" + file + "' > points.csv");
  }
}

std::vector<Axis> ReadTable(const std::string& text, const std::string& file) {
  const std::vector<TableLine> lines = SplitTable(text, file);
  if (lines.empty())
    FailAt(file, 1, 711, "the table is empty", "a line of paths, then a line for each point");
  RefuseOtherSeparators(lines[0], file);
  std::vector<Axis> axes;
  for (const std::string& path : lines[0].cells) axes.push_back({path, {}});
  for (std::size_t l = 1; l < lines.size(); ++l) {
    const TableLine& line = lines[l];
    if (line.cells.size() != axes.size()) {
      FailAt(file, line.number, 711,
             "this line has " + std::to_string(line.cells.size()) + " cells under " +
                 std::to_string(axes.size()) + " paths",
             "give each path a value; a cell with commas is written in double quotes");
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      try {
        axes[i].values.push_back(ParseAxisValue(line.cells[i]));
      } catch (const InputError& error) {
        FailAt(file, line.number, error.diagnostic().code,
               "'" + axes[i].path + "': " + error.diagnostic().message, error.diagnostic().help);
      }
    }
  }
  if (lines.size() == 1)
    FailAt(file, lines[0].number, 711, "the table has no points", "add a line for each");
  return axes;
}

void Append(const JsonDocument& document, const Json& point, const std::string& pointer,
            std::size_t number, std::vector<Axis>* axes) {
  const auto fail = [&](const std::string& message, const std::string& help) {
    Diagnostic d;
    d.code = 711;
    d.message = message;
    d.help = help;
    d.where = document.Locate(point, pointer);
    throw InputError(std::move(d));
  };
  if (!point.IsObject())
    fail("a point must be an object, not " + std::string(point.TypeName()), kObjects);
  if (number == 0) {
    for (const auto& member : point.members()) axes->push_back({member.first, {}});
  }
  for (Axis& axis : *axes) {
    const Json* value = point.Find(axis.path);
    if (value == nullptr) {
      fail("this point does not set '" + axis.path + "', which the first one sets",
           "set the same paths at every point");
    }
    axis.values.push_back(CanonicalAxisValue(*value));
  }
  if (point.members().size() != axes->size()) {
    for (const auto& member : point.members()) {
      const auto known = [&] {
        for (const Axis& axis : *axes) {
          if (axis.path == member.first) return true;
        }
        return false;
      };
      if (!known()) {
        fail("this point sets '" + member.first + "', which the first one does not",
             "set the same paths at every point");
      }
    }
  }
}

}  // namespace

std::vector<Axis> ReadPointList(const JsonDocument& document, const Json& points,
                                const std::string& pointer) {
  const auto fail = [&](const std::string& message) {
    Diagnostic d;
    d.code = 711;
    d.message = message;
    d.help = kObjects;
    d.where = document.Locate(points, pointer);
    throw InputError(std::move(d));
  };
  if (!points.IsArray()) fail("points must be an array, not " + std::string(points.TypeName()));
  if (points.items().empty()) fail("a list without points");
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < points.items().size(); ++i)
    Append(document, points.items()[i], pointer + "/" + std::to_string(i), i, &axes);
  if (axes.empty()) fail("points that set nothing");
  return axes;
}

std::vector<Axis> ReadPointFile(const std::string& path) {
  std::string name = path;  // .CSV is .csv
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.ends_with(".csv")) {
    const std::string text = ReadTextFile(path);
    RefuseOtherEncodings(text, path);
    return ReadTable(text, path);
  }
  if (name.ends_with(".json")) {
    const JsonDocument document = ReadJsonFile(path);
    return ReadPointList(document, document.root, "");
  }
  if (!name.ends_with(".jsonl")) {
    ThrowInput(711, "'" + path + "' is no file of points by its name",
               "points are a .csv, .json or .jsonl file", ExitCode::kUsage);
  }
  const std::string text = ReadTextFile(path);
  std::vector<Axis> axes;
  std::size_t points = 0;
  int number = 0;
  for (std::size_t from = 0; from < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const JsonDocument document = ParseJson(line, path);
      Append(document, document.root, "", points++, &axes);
    } catch (const InputError& error) {
      Diagnostic d = error.diagnostic();
      d.where.line = number + 1;
      throw InputError(std::move(d), error.exit_code());
    }
  }
  if (axes.empty()) FailAt(path, 1, 711, "no points", kObjects);
  return axes;
}

}  // namespace aurum
