#include "sim/cost/profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/core/text_file.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Profile LoadProfile(const std::string& name) { return ReadProfile(OpenProfile(name, ".")); }

std::string TextOf(const std::string& name) {
  return ReadTextFile("calibrate/profiles/" + name + ".json");
}

// The profile's text with one piece replaced; the piece must be there.
JsonDocument EditedProfile(const std::string& name, const std::string& from,
                           const std::string& to) {
  std::string text = TextOf(name);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  return ParseJson(text, "edited.json");
}

// Sizes from 1 up, dense where tiles end: 1, 2, 3, 4, 6, 9, … and every power of two ± 1.
std::vector<double> Sizes(double high) {
  std::vector<double> sizes;
  for (double size = 1; size <= high; size = std::ceil(size * 1.37)) sizes.push_back(size);
  for (double power = 32; power <= high; power *= 2) {
    for (const double off : {-1.0, -0.5, 0.0, 0.5, 1.0}) sizes.push_back(power + off);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

void CheckRises(const std::vector<double>& sizes, const std::function<double(double)>& seconds) {
  double before = 0;
  for (const double size : sizes) {
    const double now = seconds(size);
    CHECK_MESSAGE((std::isfinite(now) && now > 0 && now >= before), "at size ", size, ": ", now,
                  " after ", before);
    before = now;
  }
}

// A GEMM model with nothing fitted: 1 TFLOP/s, 1 TB/s, no fixed time.
GemmModel PlainGemm() {
  GemmModel model;
  model.form = "roofline";
  model.rate_flops = 1e12;
  model.bandwidth_bytes_per_s = 1e12;
  return model;
}

TEST_CASE("gemm: the roofline's two sides, in closed form") {
  GemmModel model = PlainGemm();
  model.t0_s = 1e-6;
  CHECK(GemmBurstSeconds(model, 100, 2, 2, 1000, 1000, 1000) ==
        doctest::Approx(1e-6 + 2e-3).epsilon(1e-12));
  // k = 1: 2·10⁶ FLOP take 2 µs, the bytes 2·(1000 + 1000) + 2·10⁶ take 2.004.
  CHECK(GemmBurstSeconds(model, 100, 2, 2, 1000, 1000, 1) ==
        doctest::Approx(1e-6 + 2.004e-6).epsilon(1e-12));
}

TEST_CASE("gemm: k_half is the k at which half of the rate is reached") {
  GemmModel model = PlainGemm();
  model.form = "k_saturation";
  model.k_half = 128;
  model.bandwidth_bytes_per_s = 1e18;
  const double seconds = GemmBurstSeconds(model, 100, 2, 2, 4096, 4096, 128);
  CHECK(2 * 4096.0 * 4096 * 128 / seconds == doctest::Approx(0.5e12).epsilon(1e-12));
}

TEST_CASE("gemm: whole waves of one tile") {
  GemmModel model = PlainGemm();
  model.form = "tile";
  model.wave_alpha = 1;
  model.tiles = {{128, 256, 1.0}};
  model.bandwidth_bytes_per_s = 1e18;
  const double tile = 2 * 128.0 * 256 * 4096 * 132 / 1e12;  // one tile on one SM of 132
  CHECK(GemmBurstSeconds(model, 132, 2, 2, 4096, 4096, 4096) == doctest::Approx(4 * tile));
  CHECK(GemmBurstSeconds(model, 132, 2, 2, 4352, 4096, 4096) == doctest::Approx(5 * tile));
  // One row more than a whole number of tiles costs a whole row of tiles: 33·16 = 528 = 4 waves
  // still.
  CHECK(GemmBurstSeconds(model, 132, 2, 2, 4097, 4096, 4096) == doctest::Approx(4 * tile));
  model.wave_alpha = 0;  // no quantisation of waves: 528 tiles are exactly 4
  CHECK(GemmBurstSeconds(model, 132, 2, 2, 4097, 4096, 4096) == doctest::Approx(4 * tile));
  CHECK(GemmBurstSeconds(model, 132, 2, 2, 4096, 4096, 4096) ==
        doctest::Approx(512.0 / 132 * tile));
  // Less than one wave still takes the time of one tile.
  CHECK(GemmBurstSeconds(model, 132, 2, 2, 1, 1, 4096) == doctest::Approx(tile));
}

TEST_CASE("gemm: rows and columns saturate in p_norm, and the norm joins two equal sides") {
  GemmModel model = PlainGemm();
  model.form = "p_norm";
  model.m_half = 100;
  model.n_half = 200;
  model.bandwidth_bytes_per_s = 1e18;
  CHECK(GemmBurstSeconds(model, 100, 2, 2, 1000, 1000, 1000) ==
        doctest::Approx(2 * 1100.0 * 1200 * 1000 / 1e12).epsilon(1e-12));
  // A product whose arithmetic and memory both take 2 ms: (1 + 1)^(1/p) times that.
  model = PlainGemm();
  model.bandwidth_bytes_per_s = 2.0 * (2000 * 1000 + 1000 * 1000) / 2e-3;
  for (const auto& [norm, factor] :
       {std::pair{0, 1.0}, {2, std::sqrt(2.0)}, {4, std::sqrt(std::sqrt(2.0))}}) {
    model.norm = norm;
    CHECK(GemmBurstSeconds(model, 100, 2, 2, 1000, 1000, 1000) ==
          doctest::Approx(2e-3 * factor).epsilon(1e-12));
  }
}

TEST_CASE("gemm: a long k over few tiles is split, at the price of partial sums") {
  GemmModel model = PlainGemm();
  model.form = "split_k";
  model.wave_alpha = 1;
  model.tiles = {{128, 128, 1.0}};
  model.bandwidth_bytes_per_s = 1e15;
  model.split_overhead_s = 1e-6;
  model.most_splits = 8;
  // 8 tiles on 128 SMs: k = 16384 in 8 parts is 64 blocks, still one wave.
  const double tile = 2 * 128.0 * 128 * 128 / 1e12;  // seconds of one step of k on all SMs
  const double partial = 8 * 512.0 * 256 * 8 / (8 * 1e15);
  CHECK(GemmBurstSeconds(model, 128, 2, 2, 512, 256, 16384) ==
        doctest::Approx(tile * 16384 / 8 + partial + 1e-6).epsilon(1e-9));
  model.most_splits = 1;
  CHECK(GemmBurstSeconds(model, 128, 2, 2, 512, 256, 16384) ==
        doctest::Approx(tile * 16384).epsilon(1e-9));
  // Where the parts fill no more SMs than the tiles did, nothing is gained: it stays whole.
  model.most_splits = 8;
  CHECK(GemmBurstSeconds(model, 128, 2, 2, 4096, 4096, 256) ==
        doctest::Approx(8 * tile * 256).epsilon(1e-9));
}

TEST_CASE("gemm: settling takes half of its slowdown at its half time") {
  GemmModel model = PlainGemm();
  model.settling_slowdown = 0.2;
  model.settling_s = 2e-3;
  CHECK(GemmBurstSeconds(model, 100, 2, 2, 1000, 1000, 1000) ==
        doctest::Approx(2e-3 * 1.1).epsilon(1e-12));
  CHECK(GemmBurstSeconds(model, 100, 2, 2, 1e5, 1e5, 1000) ==
        doctest::Approx(20 * 1.2).epsilon(1e-3));
}

TEST_CASE("gemm: A100 products of unaligned sizes take a third longer, in whole sizes only") {
  const Profile a100 = LoadProfile("a100");
  const GemmModel& model = a100.gemm.at(DType::kBf16);
  const auto over_burst = [&](double m, double n, double k, bool sums_tokens = false) {
    return a100.GemmSeconds(m, n, k, DType::kBf16, sums_tokens) /
           GemmBurstSeconds(model, 108, 2, 2, m, n, k) / a100.sustained_factor;
  };
  CHECK(over_burst(4096, 4096, 4096) == doctest::Approx(1));
  CHECK(over_burst(4097, 4096, 4096) == doctest::Approx(1));  // tokens may be as many as they like
  CHECK(over_burst(4096, 4100, 4096) == doctest::Approx(1.33));
  CHECK(over_burst(4096, 4096, 5461) == doctest::Approx(1.33));
  CHECK(over_burst(4096, 4096, 5461.5) == doctest::Approx(1));  // a mean, of no alignment
  CHECK(over_burst(4096, 4096, 577, true) == doctest::Approx(1));
  CHECK(over_burst(4100, 4096, 577, true) == doctest::Approx(1.33));
  const Profile h100 = LoadProfile("h100");
  CHECK(h100.unaligned_factor == 1);
  CHECK(!a100.unaligned_source.empty());
}

TEST_CASE("gemm: the sustained factor multiplies the burst, types have their bytes") {
  Profile profile = LoadProfile("h100");
  const GemmModel& model = profile.gemm.at(DType::kBf16);
  CHECK(profile.GemmSeconds(4096, 4096, 4096, DType::kBf16) ==
        doctest::Approx(profile.sustained_factor *
                        GemmBurstSeconds(model, 132, 2, 2, 4096, 4096, 4096)));
  CHECK(BytesOf(DType::kFp8) == 1);
  CHECK(BytesOf(DType::kFp8Block) == 1.03125);
  CHECK(BytesOf(DType::kNvfp4) == 0.5625);
  CHECK(GemmOutputBytes(DType::kFp8) == 2);
  CHECK(GemmOutputBytes(DType::kFp32) == 4);
  // fp8 is faster by nearly its ratio where arithmetic binds, and throttles less.
  const double ratio = profile.GemmSeconds(8192, 8192, 8192, DType::kBf16) /
                       profile.GemmSeconds(8192, 8192, 8192, DType::kFp8) /
                       profile.sustained_factor * profile.sustained_fp8_factor;
  CHECK(ratio > 1.6);
  CHECK(ratio < 1.7);
  CHECK(profile.sustained_fp8_factor < profile.sustained_factor);
  CHECK(profile.SustainedFactor(DType::kFp8Block) == profile.sustained_fp8_factor);
  CHECK(profile.SustainedFactor(DType::kFp32) == profile.sustained_factor);
  CHECK(!profile.Supports(DType::kNvfp4));
  const Profile b200 = LoadProfile("b200");
  CHECK(b200.gemm.at(DType::kNvfp4).rate_flops ==
        doctest::Approx(2.8 * b200.gemm.at(DType::kBf16).rate_flops).epsilon(1e-4));
}

TEST_CASE("power: a lower limit slows matrices and attention by its cube root, and nothing else") {
  const Profile h100 = LoadProfile("h100");
  CHECK(h100.power_limit_w == 700);
  const Profile limited = WithPowerLimit(h100, 500);
  const double slower = std::cbrt((700.0 - 70) / (500 - 70));
  const auto compute = [](const Profile& p) {
    return p.GemmSeconds(8192, 8192, 8192, DType::kBf16) -
           p.sustained_factor * p.gemm.at(DType::kBf16).t0_s;
  };
  // Settling lets a slower product slow down a little more.
  CHECK(compute(limited) / compute(h100) == doctest::Approx(slower).epsilon(0.01));
  CHECK(compute(limited) / compute(h100) >= slower * 0.9999);
  const double attention = limited.AttentionForwardSeconds(8, 32, 8, 8192, 8192, 128, true) /
                           h100.AttentionForwardSeconds(8, 32, 8, 8192, 8192, 128, true);
  CHECK(attention == doctest::Approx(slower).epsilon(0.005));
  CHECK(limited.MemoryBoundSeconds(1e9) == h100.MemoryBoundSeconds(1e9));
  CHECK(limited.DecodeAttentionSeconds(8, 8, 4096, 128) ==
        h100.DecodeAttentionSeconds(8, 8, 4096, 128));
  CHECK(limited.power_limit_w == 500);
  CHECK(WriteProfile(WithPowerLimit(h100, 700)).Dump() == WriteProfile(h100).Dump());

  Diagnostic d = ThrownBy([&] { WithPowerLimit(h100, 70); });
  CHECK(d.code == 804);
  CHECK(d.help.find("70 W") != std::string::npos);
  CHECK(ThrownBy([&] { WithPowerLimit(h100, 701); }).help.find("700 W") != std::string::npos);
  Profile silent = h100;
  silent.power_limit_w = 0;
  CHECK(ThrownBy([&] { WithPowerLimit(silent, 500); }).code == 804);
}

TEST_CASE("ranges: what lies outside of the fit is an extrapolation") {
  const Profile h100 = LoadProfile("h100");
  CHECK(!h100.ExtrapolatesGemm(4096, 4096, 4096, DType::kBf16));
  CHECK(h100.ExtrapolatesGemm(4096, 4096, 64, DType::kBf16));
  CHECK(h100.ExtrapolatesGemm(1e6, 4096, 4096, DType::kFp8));
  CHECK(h100.ExtrapolatesGemm(4096, 4096, 4096, DType::kNvfp4));  // no such type
  CHECK(!h100.ExtrapolatesAttention(8, 32, 4096, 4096, 96));
  CHECK(h100.ExtrapolatesAttention(8, 32, 1 << 20, 1 << 20, 128));
  CHECK(h100.ExtrapolatesAttention(8, 32, 4096, 4096, 512));
  CHECK(h100.ExtrapolatesAttention(1, 1, 4096, 4096, 128));
  CHECK(!h100.ExtrapolatesDecode(8, 8, 1024));
  CHECK(h100.ExtrapolatesDecode(8, 8, 1e7));
  CHECK(!h100.ExtrapolatesCollective(CollectiveKind::kAllReduce, 8, 1 << 20));
  CHECK(h100.ExtrapolatesCollective(CollectiveKind::kAllReduce, 8, 1e11));
  CHECK(h100.ExtrapolatesCollective(CollectiveKind::kAllReduce, 3, 1 << 20));
  Profile silent = h100;  // a file of old, without ranges
  silent.gemm.at(DType::kBf16).k = {};
  CHECK(!silent.ExtrapolatesGemm(4096, 4096, 64, DType::kBf16));
}

TEST_CASE("derived: links, power and generations") {
  const Profile h100 = LoadProfile("h100");
  const Profile h800 = LoadProfile("h800");
  // The same chip on slower links: kernels alike, large collectives near 900/400 as long, small ones
  // alike.
  CHECK(h800.GemmSeconds(4096, 4096, 4096, DType::kBf16) ==
        h100.GemmSeconds(4096, 4096, 4096, DType::kBf16));
  const auto reduce = [](const Profile& p, double bytes) {
    return EnvelopeSeconds(*p.Envelope(CollectiveKind::kAllReduce, 8), bytes);
  };
  CHECK(reduce(h800, 1e10) / reduce(h100, 1e10) == doctest::Approx(2.25).epsilon(0.01));
  CHECK(reduce(h800, 1024) / reduce(h100, 1024) < 1.05);
  // Volta's tensor cores take no bf16.
  const Profile v100 = LoadProfile("v100-32");
  CHECK(v100.GemmSeconds(4096, 4096, 4096, DType::kFp16) * 5 <
        v100.GemmSeconds(4096, 4096, 4096, DType::kBf16));
  CHECK(!v100.Supports(DType::kFp8));
  // The same chip at 300 W.
  const double share = LoadProfile("a100-pcie-80").gemm.at(DType::kBf16).rate_flops /
                       LoadProfile("a100").gemm.at(DType::kBf16).rate_flops;
  CHECK(share == doctest::Approx(std::cbrt((300.0 - 40) / (400 - 40))).epsilon(1e-4));
}

TEST_CASE("gemm: a type that the device lacks is an input error that lists the others") {
  const Profile profile = LoadProfile("a100");
  CHECK(!profile.Supports(DType::kFp8));
  const Diagnostic d = ThrownBy([&] { profile.GemmSeconds(64, 64, 64, DType::kFp8); });
  CHECK(d.code == 803);
  CHECK(d.message.find("'a100' has no fp8") != std::string::npos);
  CHECK(d.help.find("bf16, fp16, fp32") != std::string::npos);
}

TEST_CASE("attention: causal halves a square, and other shapes follow the mask") {
  Profile profile;
  profile.device.sm_count = 100;
  profile.attention.bandwidth_bytes_per_s = 1e18;
  profile.attention.per_head_dim = {{128, 1e12, 0}};
  const auto seconds = [&](double q, double kv, bool causal) {
    return profile.AttentionForwardSeconds(2, 8, 8, q, kv, 128, causal);
  };
  const double full = 4.0 * 2 * 8 * 1024 * 1024 * 128 / 1e12;
  CHECK(seconds(1024, 1024, false) == doctest::Approx(full));
  CHECK(seconds(1024, 1024, true) == doctest::Approx(full / 2));
  // The last quarter of the queries sees 1/4 − 1/32 of all pairs.
  CHECK(seconds(256, 1024, true) == doctest::Approx(full * (0.25 - 1.0 / 32)));
  CHECK(seconds(256, 1024, false) == doctest::Approx(full / 4));
  CHECK(profile.AttentionBackwardSeconds(2, 8, 8, 1024, 1024, 128, true) ==
        doctest::Approx(full / 2 * 2.5 * 1.1));
}

TEST_CASE("attention: h tokens a query, and a tail on every SM") {
  Profile profile;
  profile.device.sm_count = 100;
  profile.attention.bandwidth_bytes_per_s = 1e18;
  profile.attention.per_head_dim = {{128, 1e12, 512}};
  const double flops = 2.0 * 32 * 4096 * 4096 * 128;
  CHECK(profile.AttentionForwardSeconds(1, 32, 8, 4096, 4096, 128, true) ==
        doctest::Approx(flops * (1 + 512.0 / 4096) / 1e12));
  profile.attention.tail = 0.5;
  CHECK(profile.AttentionForwardSeconds(1, 32, 8, 4096, 4096, 128, true) ==
        doctest::Approx((flops * (1 + 512.0 / 4096) + 0.5 * 100 * 4 * 128.0 * 4096 * 128) / 1e12));
}

TEST_CASE("attention: between known head dimensions the cost is interpolated") {
  Profile profile;
  profile.device.sm_count = 100;
  profile.attention.bandwidth_bytes_per_s = 1e18;
  profile.attention.per_head_dim = {{64, 0.5e12, 0}, {128, 1e12, 0}};  // the same time a pair
  const auto seconds = [&](int dim) {
    return profile.AttentionForwardSeconds(1, 32, 8, 4096, 4096, dim, true);
  };
  CHECK(seconds(96) == doctest::Approx(seconds(64)));
  CHECK(seconds(128) == doctest::Approx(seconds(64)));
  CHECK(seconds(256) == doctest::Approx(2 * seconds(128)));
  CHECK(seconds(32) == doctest::Approx(seconds(64) / 2));
}

TEST_CASE("every profile: positive, finite and never falling in any size") {
  const std::vector<std::string> names = ProfileCatalogue(".");
  REQUIRE(names.size() >= 10);
  for (const std::string& name : names) {
    CAPTURE(name);
    Profile p = LoadProfile(name);
    p.unaligned_factor = 1;  // sizes of one alignment: see profile.cc
    const std::vector<double> sizes = Sizes(40000);
    for (const auto& [dtype, model] : p.gemm) {
      const DType type = dtype;
      for (const double other : {1.0, 100.0, 4097.0}) {
        for (const double k : {1.0, 640.0, 8192.0}) {
          CheckRises(sizes, [&](double s) { return p.GemmSeconds(s, other, k, type); });
          CheckRises(sizes, [&](double s) { return p.GemmSeconds(other, s, k, type); });
          CheckRises(sizes, [&](double s) { return p.GemmSeconds(other, k, s, type); });
        }
      }
    }
    for (const bool causal : {false, true}) {
      for (const double other : {1.0, 129.0, 4096.0}) {
        CheckRises(sizes, [&](double s) {
          return p.AttentionForwardSeconds(2, 16, 4, s, other, 128, causal);
        });
        CheckRises(sizes, [&](double s) {
          return p.AttentionForwardSeconds(2, 16, 4, other, s, 128, causal);
        });
        CheckRises(sizes, [&](double s) {
          return p.AttentionBackwardSeconds(s, 16, 4, other, other, 128, causal);
        });
        CheckRises(sizes, [&](double s) {
          return p.AttentionForwardSeconds(1, s, 1, other, other, 64, causal);
        });
        CheckRises(sizes, [&](double s) {
          return p.AttentionForwardSeconds(1, 64, s, other, other, 64, causal);
        });
        CheckRises(Sizes(600), [&](double s) {
          return p.AttentionForwardSeconds(4, 16, 4, other, other, static_cast<int>(s), causal);
        });
      }
    }
    CheckRises(sizes, [&](double s) { return p.DecodeAttentionSeconds(s, 8, 1024, 128); });
    CheckRises(sizes, [&](double s) { return p.DecodeAttentionSeconds(8, s, 1024, 128); });
    CheckRises(sizes, [&](double s) { return p.DecodeAttentionSeconds(8, 8, s, 128); });
    CheckRises(Sizes(1e9), [&](double s) { return p.MemoryBoundSeconds(s); });
    for (const auto& entry : p.collectives) {
      CheckRises(Sizes(1e9), [&](double s) { return EnvelopeSeconds(entry.second, s); });
    }
  }
}

TEST_CASE("envelopes: concave, every line lowest somewhere, no measurement elsewhere") {
  int envelopes = 0;
  for (const std::string& name : ProfileCatalogue(".")) {
    const Profile p = LoadProfile(name);
    for (const auto& [key, envelope] : p.collectives) {
      CAPTURE(name);
      ++envelopes;
      double crossing = 0;
      for (std::size_t i = 0; i + 1 < envelope.lines.size(); ++i) {
        const EnvelopeLine& a = envelope.lines[i];
        const EnvelopeLine& b = envelope.lines[i + 1];
        const double next = (b.latency_s - a.latency_s) / (1 / a.bytes_per_s - 1 / b.bytes_per_s);
        CHECK(next > crossing);
        crossing = next;
      }
      for (double bytes = 1024; bytes < 1e9;
           bytes *= 3) {  // concave: the middle is not below the chord
        CHECK(EnvelopeSeconds(envelope, 2 * bytes) >=
              (EnvelopeSeconds(envelope, bytes) + EnvelopeSeconds(envelope, 3 * bytes)) / 2 -
                  1e-12);
      }
    }
    CHECK(p.Envelope(CollectiveKind::kAllReduce, 3) == nullptr);
    CHECK(p.Envelope(CollectiveKind::kSendRecv, 8) == nullptr);
  }
  CHECK(envelopes > 60);
  CHECK(LoadProfile("rtx4090").collectives.empty());
  CHECK(LoadProfile("orin-nx").collectives.empty());
}

TEST_CASE("committed profiles: hold-out errors are below their bars") {
  struct Bar {
    const char* name;
    double gemm_training, gemm_all, attention_training;
  };
  // The GEMM tables of GB200 and L40S hold like shapes that differ by up to 40 %.
  for (const Bar& bar : {Bar{"a100", 0.04, 0.06, 0.07}, Bar{"h100", 0.05, 0.065, 0.07},
                         Bar{"h200", 0.04, 0.06, 0.07}, Bar{"b200", 0.052, 0.066, 0.06},
                         Bar{"gb200", 0.076, 0.095, 0.08}, Bar{"l40s", 0.077, 0.09, 0.07},
                         Bar{"rtx-pro-6000", 0.04, 0.05, 0.03}}) {
    CAPTURE(bar.name);
    const Profile p = LoadProfile(bar.name);
    const FitQuality& gemm = p.gemm.at(DType::kBf16).quality;
    CHECK(gemm.training_size_mape < bar.gemm_training);
    CHECK(gemm.holdout_mape < bar.gemm_all);
    CHECK(gemm.points > 200);
    CHECK(p.attention.quality.training_size_mape < bar.attention_training);
    CHECK(p.decode.quality.holdout_mape < 0.35);
    for (const auto& [key, envelope] : p.collectives) CHECK(envelope.quality.holdout_mape < 0.3);
  }
}

TEST_CASE("published values: attention and collectives of one node") {
  const Profile h100 = LoadProfile("h100");
  // FLOP/s with the causal half counted once, 32 heads of 128, 8 sequences (step-time study).
  const auto rate = [](const Profile& p, double s) {
    return 2 * 8 * 32 * s * s * 128 / p.AttentionForwardSeconds(8, 32, 8, s, s, 128, true);
  };
  CHECK(rate(h100, 1024) == doctest::Approx(364e12).epsilon(0.12));
  CHECK(rate(h100, 2048) == doctest::Approx(478e12).epsilon(0.12));
  CHECK(rate(h100, 4096) == doctest::Approx(566e12).epsilon(0.12));
  CHECK(rate(h100, 8192) == doctest::Approx(622e12).epsilon(0.12));
  CHECK(rate(h100, 16384) == doctest::Approx(655e12).epsilon(0.12));
  CHECK(rate(LoadProfile("a100"), 4096) == doctest::Approx(169e12).epsilon(0.12));
  // 512 MB all-reduce on 8 H100: 445 GB/s of bus bandwidth, NVLS.
  const CollectiveEnvelope* reduce = h100.Envelope(CollectiveKind::kAllReduce, 8);
  REQUIRE(reduce != nullptr);
  const double bytes = 536870912;
  CHECK(bytes / EnvelopeSeconds(*reduce, bytes) * 1.75 == doctest::Approx(445e9).epsilon(0.02));
  CHECK(reduce->busbw_bytes_per_s == doctest::Approx(462e9).epsilon(0.04));
  const CollectiveEnvelope* ampere = LoadProfile("a100").Envelope(CollectiveKind::kAllReduce, 8);
  REQUIRE(ampere != nullptr);
  CHECK(ampere->busbw_bytes_per_s == doctest::Approx(229e9).epsilon(0.04));
}

TEST_CASE("facts: no profile is faster than its datasheet") {
  for (const std::string& name : ProfileCatalogue(".")) {
    CAPTURE(name);
    const Profile p = LoadProfile(name);
    const double flops = 2 * 16384.0 * 16384 * 16384;
    const DType half = p.device.compute_capability < 8 ? DType::kFp16 : DType::kBf16;
    const double rate = flops / p.GemmSeconds(16384, 16384, 16384, half);
    // Measured GeForces boost beyond the clock that their datasheet's peak is quoted at.
    const bool boosts = p.measured_rate.rows > 0;
    CHECK(rate < (boosts ? 1.25 : 1) * p.device.peak_bf16_flops);
    CHECK(rate > 0.3 * p.device.peak_bf16_flops);
    CHECK(1e9 / p.MemoryBoundSeconds(1e9) < p.device.memory_bandwidth_bytes_per_s);
    CHECK(!p.device.source.empty());
    CHECK(!p.description.empty());
    CHECK(p.error_band >= 0.1);
    CHECK(p.power_limit_w > p.idle_power_w);
  }
  for (const std::string name : {"l4", "orin-nx"}) {
    const Profile p = LoadProfile(name);
    CHECK(p.provenance == Provenance::kDatasheet);
    CHECK(p.error_band >= 0.4);
  }
}

TEST_CASE("profiles read back equal, and write the same text") {
  for (const std::string& name : ProfileCatalogue(".")) {
    CAPTURE(name);
    CHECK(LoadProfile(name).name == name);
    const std::string once = WriteProfile(LoadProfile(name)).Dump(2) + "\n";
    CHECK(once == TextOf(name));
  }
  Profile odd = LoadProfile("h100");
  odd.attention.t0_s = 0.1 + 0.2;  // a number that needs all of its digits
  odd.sustained_factor = 1.0 / 3;
  const Profile back = ReadProfile(ParseJson(WriteProfile(odd).Dump(2), "odd.json"));
  CHECK(back.attention.t0_s == odd.attention.t0_s);
  CHECK(back.sustained_factor == odd.sustained_factor);
  CHECK(std::isnan(back.gemm.at(DType::kFp8).quality.holdout_mape));
}

TEST_CASE("reader errors say what, where and the remedy") {
  Diagnostic d =
      ThrownBy([] { ReadProfile(EditedProfile("h100", "aurum.profile/1", "aurum.profile/2")); });
  CHECK(d.code == 801);
  CHECK(d.where.line == 2);
  CHECK(d.help.find("aurum.profile/1") != std::string::npos);

  d = ThrownBy([] { ReadProfile(EditedProfile("h100", "\"t0_s\"", "\"t0\"")); });
  CHECK(d.code == 102);
  CHECK(d.where.pointer == "/memory_bound");
  CHECK(d.help.find("'t0'") != std::string::npos);

  d = ThrownBy(
      [] { ReadProfile(EditedProfile("h100", "\"efficiency\": 0.8", "\"efficiency\": 8")); });
  CHECK(d.code == 107);
  CHECK(d.where.pointer == "/memory_bound/efficiency");

  d = ThrownBy(
      [] { ReadProfile(EditedProfile("h100", "\"sm_count\": 132", "\"sm_count\": 132.5")); });
  CHECK(d.code == 103);

  d = ThrownBy([] {
    ReadProfile(EditedProfile("h100", "\"form\": \"split_k\"", "\"form\": \"k_saturation\""));
  });
  CHECK(d.code == 802);
  CHECK(d.where.pointer == "/gemm/bf16/tiles");

  d = ThrownBy(
      [] { ReadProfile(EditedProfile("h100", "\"most_splits\": 8", "\"most_splits\": 1")); });
  CHECK(d.code == 802);
  CHECK(d.where.pointer == "/gemm/bf16/most_splits");

  d = ThrownBy([] {
    ReadProfile(EditedProfile("h100", "\"norm\": \"4\"", "\"norm\": \"4\", \"m_half\": 3"));
  });
  CHECK(d.code == 802);
  CHECK(d.where.pointer == "/gemm/bf16/m_half");

  d = ThrownBy([] { ReadProfile(EditedProfile("h100", "\"low\": 256.0", "\"low\": 1e9")); });
  CHECK(d.code == 802);
  CHECK(d.where.pointer == "/gemm/bf16/range/m/low");

  d = ThrownBy([] {
    ReadProfile(EditedProfile("h100", "\"idle_power_w\": 70.0", "\"idle_power_w\": 700.0"));
  });
  CHECK(d.code == 802);
  CHECK(d.where.pointer == "/sustained/idle_power_w");

  d = ThrownBy([] { ReadProfile(EditedProfile("h100", "\"bf16\"", "\"bf61\"")); });
  CHECK(d.code == 101);
  CHECK(d.help.find("bf16") != std::string::npos);

  d = ThrownBy([] { ReadProfile(EditedProfile("h100", "\"head_dim\": 64", "\"head_dim\": 128")); });
  CHECK(d.code == 802);
  CHECK(d.where.pointer == "/attention/per_head_dim/1/head_dim");

  d = ThrownBy([] { ReadProfile(EditedProfile("h100", "\"gpus\": 4", "\"gpus\": 2")); });
  CHECK(d.code == 802);
  CHECK(d.message == "all_reduce on 2 GPUs is given twice");
  CHECK(d.where.pointer == "/collectives/1/kind");
}

TEST_CASE("opening: names, files, and names that are nearly right") {
  const Diagnostic d = ThrownBy([] { OpenProfile("h100x", "."); });
  CHECK(d.code == 230);
  CHECK(d.help.find("did you mean 'h100'?") != std::string::npos);
  CHECK(ThrownBy([] { OpenProfile("h100", "nowhere"); }).help.find("is the data folder right?") !=
        std::string::npos);
  CHECK(ThrownBy([] { OpenProfile("./nothing.json", "."); }).code == 201);
  CHECK(ReadProfile(OpenProfile("calibrate/profiles/h100.json", "nowhere")).name == "h100");
}

}  // namespace
}  // namespace aurum
