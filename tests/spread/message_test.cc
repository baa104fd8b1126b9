#include "sim/spread/message.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace aurum {
namespace {

Message TwoRows() {
  Message message;
  message.kind = MessageKind::kRows;
  message.slot = 3;
  message.begin = 40;
  message.at = 42;
  message.end = 50;
  message.size = 17;
  for (std::size_t i = 40; i < 42; ++i) {
    PointRow row;
    row.ordinal = i;
    row.id = {i, ~i};
    row.figures = {{"time_s", 1.0 / static_cast<double>(i)},
                   {"bound", std::string("net\0work", 8)}};
    message.rows.push_back(row);
  }
  message.rows[1].status = PointStatus::kInfeasible;
  message.rows[1].diagnostic = "error[E0312]: does not divide";
  message.rows[1].figures = {{"other", -std::numeric_limits<double>::infinity()}, {"time_s", -0.0}};
  return message;
}

TEST_CASE("a message arrives as it was sent, bit for bit") {
  const Message sent = TwoRows();
  const Message got = Unpack(Pack(sent));
  CHECK(got.kind == MessageKind::kRows);
  CHECK(got.slot == 3);
  CHECK(got.begin == 40);
  CHECK(got.at == 42);
  CHECK(got.end == 50);
  CHECK(got.size == 17);
  REQUIRE(got.rows.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(got.rows[i].ordinal == sent.rows[i].ordinal);
    CHECK(got.rows[i].id == sent.rows[i].id);
    CHECK(got.rows[i].status == sent.rows[i].status);
    CHECK(got.rows[i].diagnostic == sent.rows[i].diagnostic);
    REQUIRE(got.rows[i].figures.size() == 2);
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(got.rows[i].figures[k].name == sent.rows[i].figures[k].name);
      CHECK(got.rows[i].figures[k].value == sent.rows[i].figures[k].value);
    }
  }
  CHECK(std::signbit(std::get<double>(got.rows[1].figures[1].value)));
  const Message hello =
      Unpack(Pack({.kind = MessageKind::kHello, .text = "node7", .study = "0123456789abcdef"}));
  CHECK(hello.text == "node7");
  CHECK(hello.study == "0123456789abcdef");
}

// Another version at the other end must be an error, never a crash or rows out of nothing.
TEST_CASE("what is no message is refused, cut off or changed anywhere") {
  const std::string whole = Pack(TwoRows());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(Unpack(whole.substr(0, size)), std::runtime_error);
  }
  CHECK_THROWS_AS(Unpack(whole + "x"), std::runtime_error);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(0xff);
    try {
      const Message message = Unpack(changed);
      CHECK(message.rows.size() == message.at - message.begin);
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  CHECK(refused > 50);  // kinds, sizes and counts; a changed number is a number
}

}  // namespace
}  // namespace aurum
