#pragma once

#include <string>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// Every profile of the catalogue, made from the tables of `kernels_folder` and the device facts in
// build_profiles.cc; sorted by name. The same tables give the same profiles, digit for digit.
// `only`: these names alone; empty = all. Errors: those of the readers and fits; E0201 a table is
// missing.
std::vector<Profile> BuildProfiles(const std::string& kernels_folder,
                                   const std::vector<std::string>& only = {});

// The text of a profile's file.
std::string ProfileText(const Profile& profile);

}  // namespace aurum
