#include "cli/rows.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "cli/io.h"

namespace aurum {

std::string ShellQuoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_=./:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

namespace {

// Leaves of an object by their names; false of a list that is none of words.
void Leaves(const Json& value, const std::string& name,
            std::vector<std::pair<std::string, std::string>>* out) {
  if (value.IsObject()) {
    for (const auto& [key, inner] : value.members())
      Leaves(inner, name.empty() ? key : name + "." + key, out);
  } else if (value.IsArray()) {
    std::string words;
    for (const Json& item : value.items()) {
      if (!item.IsString()) return;
      words += (words.empty() ? "" : " ") + ShellQuoted(item.AsString());
    }
    out->emplace_back(name, words);
  } else {
    out->emplace_back(name, value.IsNull()     ? ""
                            : value.IsString() ? value.AsString()
                                               : value.Dump());
  }
}

}  // namespace

std::string CsvOfRows(const std::vector<Json>& rows, std::vector<std::string> columns) {
  std::vector<std::map<std::string, std::string>> cells;
  for (const Json& row : rows) {
    std::vector<std::pair<std::string, std::string>> leaves;
    Leaves(row, "", &leaves);
    for (const auto& [name, text] : leaves) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
    cells.emplace_back(leaves.begin(), leaves.end());
  }
  Table table(columns, std::string(columns.size(), '<'));
  for (auto& row : cells) {
    std::vector<std::string> line;
    for (const std::string& column : columns) line.push_back(row[column]);
    table.Row(std::move(line));
  }
  return table.Csv();
}

}  // namespace aurum
