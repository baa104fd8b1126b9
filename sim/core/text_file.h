#pragma once

#include <string>
#include <string_view>

namespace aurum {

// The whole file. Errors: E0201 no such file (with the nearest name beside it), E0202 unreadable or a directory, E0203 larger
// than 256 MiB.
std::string ReadTextFile(const std::string& path);
// Writes beside, then renames: the file is there whole or not at all. E0204 if it cannot be written.
void WriteTextFile(const std::string& path, std::string_view text);

}  // namespace aurum
