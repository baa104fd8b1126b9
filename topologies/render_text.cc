#include "topologies/render_text.h"

#include <cmath>
#include <cstdio>
#include <sstream>

#include "sim/core/units.h"

namespace aurum {

std::string ShowFigure(double value) {
  char text[64];
  if (std::abs(value) >= 1000) {
    std::snprintf(text, sizeof text, "%.0f", value);
  } else {
    std::snprintf(text, sizeof text, "%.4g", value);
  }
  return text;
}

std::string ShowGbPerS(double bytes_per_s) { return ShowFigure(bytes_per_s / kGiga) + " GB/s"; }

std::string ShowMicroseconds(double seconds) { return ShowFigure(seconds * 1e6) + " us"; }

std::string ShowCount(int count, std::string_view one, std::string_view many) {
  return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

std::string PadRight(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string PadLeft(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string Wrapped(const std::string& text, std::size_t hang) {
  std::string out;
  std::string line = " ";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.size() > 90) word = word.substr(0, 87) + "...";
    if (line.find_first_not_of(' ') != std::string::npos && line.size() + 1 + word.size() > 100) {
      out += line + "\n";
      line = " " + std::string(hang, ' ');
    }
    line += " " + word;
  }
  return out + line + "\n";
}

}  // namespace aurum
