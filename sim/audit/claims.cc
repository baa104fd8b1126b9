#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "sim/audit/audit.h"
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

// "A15" before "A16" before "B1".
bool RowBefore(const std::string& a, const std::string& b) {
  if (a[0] != b[0]) return a[0] < b[0];
  return std::atoi(a.c_str() + 1) < std::atoi(b.c_str() + 1);
}

bool IsRow(const std::string& row) {
  const int number = row.size() > 1 ? std::atoi(row.c_str() + 1) : 0;
  return !row.empty() && (row[0] == 'A' || row[0] == 'B') && number >= 1 &&
         row.substr(1) == std::to_string(number);
}

Claim ReadClaim(ObjectReader reader, const Computations& known) {
  Claim claim;
  claim.place = reader.document().Locate(reader.value(), reader.pointer());
  claim.id = reader.String("id");
  claim.row = claim.id.substr(0, claim.id.find('.'));
  if (!IsRow(claim.row)) {
    reader.Fail(791, "id", "'" + claim.id + "' does not begin with a row, A1 … or B1 …",
                "an id such as A15.formula");
  }
  if (!known.contains(claim.id)) {
    std::vector<std::string> ids;
    for (const auto& [id, computation] : known) ids.push_back(id);
    const std::string nearest = NearestName(claim.id, ids);
    reader.Fail(
        791, "id", "nothing computes a claim '" + claim.id + "'",
        nearest.empty() ? "add its computation to sim/audit" : "did you mean '" + nearest + "'?");
  }
  claim.text = reader.String("claim");
  claim.where = reader.String("where");
  claim.scenario = reader.String("scenario", "");
  claim.claimed = reader.Number("claimed", -1e18, 1e18);
  claim.unit = reader.String("unit", "");
  claim.tolerance = reader.NumberOr("tolerance", 0.05, 0, 100);
  claim.implied = reader.BoolOr("implied", false);
  if (auto given = reader.ObjectIf("given")) {
    for (const std::string& name : given->Keys())
      claim.given[name] = given->Number(name, -1e30, 1e30);
    given->Finish();
  }
  reader.Finish();
  return claim;
}

}  // namespace

std::vector<Claim> ReadClaims(const JsonDocument& document, const Computations& known) {
  ObjectReader reader(document, document.root, "");
  reader.Choice("schema", {"aurum.claims/1"});
  reader.String("$schema", "");
  std::vector<Claim> claims;
  std::set<std::string> ids;
  for (ObjectReader& entry : reader.Objects("claims")) {
    Claim claim = ReadClaim(entry, known);
    if (!ids.insert(claim.id).second)
      entry.Fail(791, "id", "claim '" + claim.id + "' is there twice", "one id for each claim");
    claims.push_back(std::move(claim));
  }
  reader.Finish();
  return claims;
}

std::vector<Claim> AllClaims(const std::string& data_root, const Computations& known) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(data_root) / "scenarios" / "articles" / "claims";
  std::error_code error;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  if (files.empty()) {
    ThrowInput(201, "there are no claims in " + folder.string(),
               "AURUM_DATA must name the folder that has scenarios/articles/claims");
  }
  std::sort(files.begin(), files.end());
  std::vector<Claim> claims;
  for (const std::string& file : files) {
    for (Claim& claim : ReadClaims(ReadJsonFile(file), known)) claims.push_back(std::move(claim));
  }
  std::stable_sort(claims.begin(), claims.end(),
                   [](const Claim& a, const Claim& b) { return RowBefore(a.row, b.row); });
  return claims;
}

}  // namespace aurum
