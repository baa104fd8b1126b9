#pragma once

#include <span>
#include <string_view>

namespace aurum {

// The report page as bundled at build time, cut at the two places that are filled in at run time.
// Each part is a sequence of chunks to be written one after the other.
struct Page {
  std::span<const std::string_view> before_title;
  std::span<const std::string_view> before_data;
  std::span<const std::string_view> after_data;
};

Page ReportPage();

}  // namespace aurum
