#include "sim/monitor/step_record.h"

#include <doctest/doctest.h>

namespace aurum {
namespace {

TEST_CASE("a record from the plain keys, from token counts and from time stamps") {
  StepReader reader;
  const auto a = reader.Read(R"({"step": 7, "step_time_s": 1.5, "mar": 0.8, "other": [1]})");
  REQUIRE(a);
  CHECK(a->step == 7);
  CHECK(*a->step_time_s == 1.5);
  CHECK(*a->mar == 0.8);
  const auto b = reader.Read(R"({"time_s": 100, "aligned_tokens": 30, "cross_modal_tokens": 40})");
  REQUIRE(b);
  CHECK(b->step == 8);
  CHECK(*b->mar == 0.75);
  CHECK_FALSE(b->step_time_s);
  const auto c =
      reader.Read(R"({"step": 12, "time_s": 108, "cross_modal_tokens": 0, "aligned_tokens": 0})");
  REQUIRE(c);
  CHECK(*c->step_time_s == 2);  // 8 s over 4 steps
  CHECK_FALSE(c->mar);          // 0/0 is not known
  // Training went back to a checkpoint: the time between is not a step's.
  const auto d = reader.Read(R"({"step": 9, "time_s": 500})");
  REQUIRE(d);
  CHECK_FALSE(d->step_time_s);
  CHECK(reader.restarts() == 1);
  CHECK(reader.bad_lines() == 0);
}

TEST_CASE("garbage is counted by its reason, with the first line of each, and harms nothing") {
  StepReader reader;
  const std::string long_array(300, '[');
  for (const std::string& line :
       {std::string("Loading checkpoint shards: 100%"), std::string("{\"step\": 1, \"step_ti"),
        std::string("\xff\xfe{}"), std::string("{\"step\": 2, \"x\": \"\xc3\"}"),
        std::string("[1, 2]"), std::string("{\"step\": 1.5, \"step_time_s\": 1}"),
        std::string("{\"step\": -1, \"step_time_s\": 1}"), std::string("{\"step_time_s\": -2}"),
        std::string("{\"step_time_s\": 0}"), std::string("{\"step_time_s\": \"1\"}"),
        std::string("{\"mar\": 1.2}"),
        std::string("{\"aligned_tokens\": 5, \"cross_modal_tokens\": 4}"),
        std::string("{\"step_time_s\": 1, \"step_time_s\": 2}"), std::string("{\"step\": 3}"),
        std::string("{\"step_time\": 1.2}"), std::string("{\"step_time_s\": 1e300}"), long_array,
        std::string("null"), std::string("\0\0\0", 3)}) {
    CAPTURE(line);
    CHECK_FALSE(reader.Read(line));
  }
  CHECK(reader.bad_lines() == 19);
  CHECK(reader.Read("   \t\r") == std::nullopt);
  CHECK(reader.bad_lines() == 19);
  CHECK(reader.reasons().front().text == "not JSON");
  CHECK(reader.reasons().front().first_line == 1);
  bool named = false;
  for (const auto& reason : reader.reasons())
    named = named || reason.text.find("'step_time' is not step_time_s") != std::string::npos;
  CHECK(named);
  CHECK(reader.Read("\t{\"step\": 4, \"step_time_s\": 1}\r"));
  CHECK(reader.records() == 1);
}

TEST_CASE("NaN, as Python writes it, is not known; in a string it is a string") {
  StepReader reader;
  const auto record = reader.Read(
      R"({"step": 1, "loss": NaN, "step_time_s": 2, "mar": Infinity, "run_id": "a NaN \" b"})");
  REQUIRE(record);
  CHECK_FALSE(record->loss);
  CHECK_FALSE(record->mar);
  CHECK(record->run_id == "a NaN \" b");
  CHECK_FALSE(reader.Read(R"({"step": 2, "step_time_s": -Infinity})"));
}

TEST_CASE("a record is written and read back") {
  StepRecord record;
  record.step = 3;
  record.time_s = 17.25;
  record.step_time_s = 0.1;
  record.mar = 0.7;
  record.run_id = "x";
  record.modality_tokens["vision"] = 576;
  RankTimes rank;
  rank.rank = 5;
  rank.node = 1;
  rank.compute_s = 0.07;
  rank.data_wait_s = 0.01;
  record.ranks.push_back(rank);
  record.nodes.push_back({1, 0.25});
  StepReader reader;
  const auto back = reader.Read(StepLine(record));
  REQUIRE(back);
  CHECK(StepLine(*back) == StepLine(record));
  CHECK(back->ranks[0].data_wait_s == 0.01);
  CHECK(back->nodes[0].retransmitted_share == 0.25);
}

}  // namespace
}  // namespace aurum
