#pragma once

#include <string>
#include <string_view>

namespace aurum {

// The whole file. Errors: E0201 no such file (with the nearest name beside it), E0202 unreadable or a directory, E0203 larger
// than 256 MiB.
std::string ReadTextFile(const std::string& path);
// Whether this process has read the file, by ReadTextFile or told so: no result may take the place of
// what it was made from. Links to a file are that file.
bool WasRead(const std::string& path);
void NoteRead(const std::string& path);
// Writes beside, then renames: the file is there whole or not at all. E0204 if it cannot be written.
void WriteTextFile(const std::string& path, std::string_view text);

}  // namespace aurum
