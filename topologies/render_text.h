#pragma once

#include <string>
#include <string_view>

#include "topologies/layout.h"

namespace aurum {

// Pieces of text that the drawings of a cluster share.

std::string ShowFigure(double value);  // four significant digits, no exponent
std::string ShowGbPerS(double bytes_per_s);
std::string ShowMicroseconds(double seconds);
std::string ShowCount(int count, std::string_view one, std::string_view many);
std::string PadRight(std::string text, std::size_t width);
std::string PadLeft(std::string text, std::size_t width);
// Indented by two, `hang` more from the second line on; broken between words before column 100.
std::string Wrapped(const std::string& text, std::size_t hang = 0);

// A node that is a graph, as the tree below its CPUs; the rates are the cluster's.
std::string DrawNodeGraph(const Cluster& cluster, const Layout& at);

}  // namespace aurum
