#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/cuda/api.h"
#include "sim/cost/kernel.h"

namespace aurum::cuda {

// Operands of one kind, taken one after another from a ring of device memory: a ring several times
// as large as the L2 cache, so that nothing taken is found there. What is read holds normal values
// and is never written.
class Ring {
 public:
  Ring() = default;
  Ring(Api* api, std::optional<Numbers> numbers, std::uint64_t seed)
      : api_(api), numbers_(numbers), seed_(seed) {}
  // Grows, so that `bytes` fit at once. Not while anything that was taken is in use.
  void Reserve(double bytes, double least, const std::string& what, Stream stream);
  void* Take(double bytes);
  // What is taken next, `bytes` in all (each part aligned), does not overlap.
  void Together(double bytes) {
    if (static_cast<double>(at_) + bytes > static_cast<double>(memory_.size())) at_ = 0;
  }
  void Restart() { at_ = 0; }
  std::size_t size() const { return memory_.size(); }

 private:
  Api* api_ = nullptr;
  std::optional<Numbers> numbers_;  // nothing: results, not filled
  std::uint64_t seed_ = 0;
  Memory memory_;
  std::size_t at_ = 0;
};

// A product with its fastest algorithm on this device.
struct TunedGemm {
  GemmLayout layout;
  OwnedGemm gemm;
  int algorithm = 0;
  int algorithms = 0;  // that were tried
};

// Attention made of products and a softmax of ours, forming the scores in memory: a reference for
// fused kernels, and what runs where there are none. The query heads that share a key head are one
// matrix of group · q_len rows, so that grouped-query attention needs no copies of keys:
//   S = Q·Kᵀ/√d   P = softmax(S)   O = P·V
//   dV = Pᵀ·dO   dP = dO·Vᵀ   dS = P ∘ (dP − Σ P∘dP)/√d   dQ = dS·K   dK = dSᵀ·Q
// Backward forms S and P again, as fused kernels do. In parts of as many heads as the scores of fit
// into a bound.
class UnfusedAttention {
 public:
  UnfusedAttention(Api* api, const SdpaShape& shape);
  const SdpaShape& shape() const { return shape_; }
  std::int64_t part() const { return part_; }  // key heads of all sequences at once
  double ScratchBytes() const;
  struct Products {
    std::shared_ptr<TunedGemm> scores, output, d_probabilities, d_query, d_key, d_value;
  };
  // Of a part of `heads` key heads. Roles and sizes are in the comment above.
  std::vector<GemmLayout> Layouts(std::int64_t heads) const;
  void Enqueue(const SdpaBuffers& buffers, const std::map<std::int64_t, Products>& products,
               void* scratch, void* workspace, std::size_t workspace_bytes, Stream stream) const;

 private:
  Api* api_;
  SdpaShape shape_;
  std::int64_t part_ = 1, parts_ = 1, rows_ = 1;
};

// The kernels that Aurum runs on one GPU, as calibration and the executor both launch them.
class Primitives {
 public:
  Primitives(Api* api, int device, std::uint64_t seed);
  ~Primitives();

  // Everything that launching takes: algorithms, buffers. Not while anything runs. False: the
  // device has no such kernel. E0944, E0945 and errors of the libraries.
  bool Prepare(const Kernel& kernel);
  // A kernel that was prepared. `stream` is one of at most a few.
  void Enqueue(const Kernel& kernel, Stream stream);
  // "cuDNN", "products and a softmax of ours: no libcudnn.so.9 …": what runs attention, and how
  // many algorithms products were chosen from.
  std::vector<std::pair<std::string, std::string>> Methods() const;
  // Waits for all that was enqueued in `stream`.
  void Drain(Stream stream, const std::string& what);
  // `bytes` of device memory that holds normal values in 16 bits, for messages.
  void* Message(double bytes);
  void ReserveMessages(double bytes);
  Api* api() const { return api_; }
  int device() const { return device_; }
  const DeviceProperties& properties() const { return properties_; }

 private:
  struct Prepared;
  Prepared* PreparedFor(const Kernel& kernel);
  std::shared_ptr<TunedGemm> Tuned(const GemmLayout& layout);
  bool PrepareAttention(const Kernel& kernel, Prepared* prepared);
  bool FusedWorks(const SdpaShape& shape);
  void SelfCheckGemm();
  Ring& In(Numbers numbers);
  Ring& Out();
  double Least() const;  // of a ring
  struct Workspace {
    Memory memory;
  };
  void* WorkspaceOf(Stream stream, std::size_t bytes);

  Api* api_;
  int device_;
  std::uint64_t seed_;
  DeviceProperties properties_;
  OwnedStream setup_;
  OwnedEvent begin_, end_, drained_;
  Memory unit_scale_, sums_;
  std::map<Numbers, Ring> in_;
  Ring out_;
  bool out_made_ = false;
  std::map<Stream, Memory> workspaces_;
  std::size_t workspace_bytes_;
  std::vector<std::pair<GemmLayout, std::shared_ptr<TunedGemm>>> gemms_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
  // By head dimension, direction, type, mask and grouping: whether cuDNN agrees with our own path,
  // and why not.
  std::map<std::string, std::string> fused_checks_;
  bool fused_used_ = false, unfused_used_ = false;
  std::string unfused_reason_;
  bool gemm_checked_ = false;
};

}  // namespace aurum::cuda
