#pragma once

#include <string>
#include <vector>

#include "calibrate/measure.h"
#include "sim/cost/profile.h"

namespace aurum {

// From measurements to a profile (fit_profile.cc has the method).

struct FitProfileOptions {
  std::string name;
  // What the measurements do not tell is this one's, and says so. Null: they must tell products and
  // memory-bound kernels, and what else they lack the profile lacks.
  const Profile* base = nullptr;
};

// One part of the profile, as it was fitted: what `aurum calibrate` shows.
struct FittedPart {
  std::string what;  // "gemm bf16", "attention", "all_reduce on 8", "exact kernels", …
  std::string form;  // "k_saturation"; "from h100" where the base has it
  int points = 0;
  double holdout_mape = 0;   // NaN: nothing was held out
  double training_mape = 0;  // of sizes that training uses; NaN: the same
  std::string range;         // sizes of the fit; beyond, it extrapolates
  std::string source;
};

// A kernel beside a collective over the same kernel alone: what a stack's overlap would have to cost
// it. It belongs to a stack (what runs beside what is the framework's choice), not to a profile.
struct OverlapSlowdown {
  Kernel kernel;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  double bytes = 0;
  double factor = 1;
};

struct ProfileFit {
  Profile profile;
  std::vector<FittedPart> parts;
  std::vector<OverlapSlowdown> overlaps;
  std::vector<std::string> remarks;  // what was left out or assumed, a sentence each
};

// E0833 measurements without products or memory-bound kernels, and no base; E0825 too few of a kind;
// E0834 a document with hardly any clean samples.
ProfileFit FitProfileWithReport(const Measurements& measurements, const FitProfileOptions& options);
Profile FitProfile(const Measurements& measurements, const std::string& name);

}  // namespace aurum
