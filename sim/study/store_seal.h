#pragma once

#include <string>

namespace aurum {

// A checksum of a complete store's file, kept in the file: SQLite's own checks find a broken structure,
// but not a flipped bit in a stored figure. It lies in the four bytes that an SQLite header leaves to
// the application (user_version, offset 60 of the file format) and covers all others; 0 there says that
// a file has none, as one that is still written to.

// Writes it into a file that nobody has open. E0726.
void SealStore(const std::string& path);
// E0721 where the file is not what was sealed, or a log beside it would change what is read of it;
// nothing for a file without a seal. E0720, E0726.
void CheckSeal(const std::string& path);

}  // namespace aurum
