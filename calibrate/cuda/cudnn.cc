#include "calibrate/cuda/cudnn.h"

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// Attention as cuDNN wants it described
// -------------------------------------
// The descriptor of a whole attention (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR of 9.13 and later)
// has no causal mask before 9.21, so attention is told as the operations that it is made of; cuDNN
// recognises the pattern and has one kernel for it. Forward, scores never leaving the chip:
//   S = Q·Kᵀ · scale;  S = row ≥ column ? S : −∞;  m = max S;  e = exp(S − m);  l = Σ e;
//   stats = m + log l;  P = e/l;  O = P·V
// Backward, with the stats of the forward pass instead of m and l:
//   D = Σ (dO ∘ O);  P = exp(S − stats);  dV = Pᵀ·dO;  dS = P ∘ (dO·Vᵀ − D) · scale;
//   dK = dSᵀ·Q;  dQ = dS·K
// dQ is summed in 32 bits in the workspace (several blocks of keys add to it), and dK and dV of
// heads that share keys are added up at the end. Which tensors are virtual, and in which type, is
// part of the pattern: as NVIDIA's cudnn-frontend (scaled_dot_product_flash_attention.h) has them.
namespace aurum::cuda {
namespace {

using Dims = std::vector<std::int64_t>;

}  // namespace

class Cudnn {
 public:
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetErrorString) text = nullptr;
  decltype(&cudnnGetLastErrorString) last_text = nullptr;
  decltype(&cudnnBackendCreateDescriptor) make = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) unmake = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  std::map<int, cudnnHandle_t> handles;  // by device

  Result Told(cudnnStatus_t status) const {
    if (status == CUDNN_STATUS_SUCCESS) return {};
    std::string why = text(status);
    char more[512] = {};
    if (last_text != nullptr) last_text(more, sizeof more);
    if (more[0] != '\0') why += std::string(": ") + more;
    return {static_cast<int>(status), Library::kCudnn, why};
  }
};

namespace {

// A graph under construction: every step keeps the first failure.
class Graph {
 public:
  explicit Graph(Cudnn* cudnn) : cudnn_(cudnn) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    for (auto d = made_.rbegin(); d != made_.rend(); ++d) cudnn_->unmake(*d);
  }

  using Desc = cudnnBackendDescriptor_t;
  struct Tensor {
    Desc desc = nullptr;
    std::int64_t uid = 0;
    Dims dims, strides;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
  };
  enum class Role : std::uint8_t { kReal, kVirtual, kByValue };

  const Result& result() const { return result_; }
  const std::vector<Desc>& operations() const { return operations_; }

  Desc Make(cudnnBackendDescriptorType_t type) {
    Desc desc = nullptr;
    if (result_.ok()) result_ = cudnn_->Told(cudnn_->make(type, &desc));
    if (desc != nullptr) made_.push_back(desc);
    return desc;
  }
  void Set(Desc desc, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::int64_t count, const void* values) {
    if (result_.ok()) result_ = cudnn_->Told(cudnn_->set(desc, name, type, count, values));
  }
  void Finalize(Desc desc) {
    if (result_.ok()) result_ = cudnn_->Told(cudnn_->finalize(desc));
  }
  void Fail(const Result& result) {
    if (result_.ok()) result_ = result;
  }

  Tensor Make(Dims dims, Dims strides, cudnnDataType_t type, Role role) {
    Tensor t{Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR), ++uids_, std::move(dims), std::move(strides),
             type};
    const std::int64_t alignment = 16;
    const auto rank = static_cast<std::int64_t>(t.dims.size());
    Set(t.desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t.uid);
    Set(t.desc, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    Set(t.desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    Set(t.desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, t.dims.data());
    Set(t.desc, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, t.strides.data());
    const bool is_virtual = role == Role::kVirtual;
    const bool by_value = role == Role::kByValue;
    Set(t.desc, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    Set(t.desc, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    Finalize(t.desc);
    return t;
  }
  Tensor Real(Dims dims, Dims strides, cudnnDataType_t type) {
    return Make(std::move(dims), std::move(strides), type, Role::kReal);
  }
  Tensor Virtual(Dims dims, Dims strides, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return Make(std::move(dims), std::move(strides), type, Role::kVirtual);
  }
  Tensor Scalar() { return Make({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, Role::kByValue); }

  void Matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
    Desc product = Make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    Set(product, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    Finalize(product);
    Desc op = Make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    Set(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &a.desc);
    Set(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b.desc);
    Set(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c.desc);
    Set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &product);
    Done(op);
  }
  void Pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* b, const Tensor& y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, const Tensor* t = nullptr,
                 std::int64_t axis = -1) {
    Desc what = Make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    Set(what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    Set(what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis >= 0) Set(what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    Finalize(what);
    Desc op = Make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    Set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what);
    Set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x.desc);
    if (b != nullptr) {
      Set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b->desc);
    }
    if (t != nullptr) {
      Set(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t->desc);
    }
    Set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y.desc);
    Done(op);
  }
  void Reduce(cudnnReduceTensorOp_t how, const Tensor& x, const Tensor& y) {
    Desc what = Make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    Set(what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    Set(what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    Finalize(what);
    Desc op = Make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    Set(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what);
    Set(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x.desc);
    Set(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y.desc);
    Done(op);
  }
  void Reshape(const Tensor& x, const Tensor& y) {
    Desc op = Make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    Set(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x.desc);
    Set(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y.desc);
    Done(op);
  }

  // An execution plan of the first engine that takes the graph; owned by the caller.
  Desc Plan(cudnnHandle_t handle) {
    Desc graph = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    Set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        static_cast<std::int64_t>(operations_.size()), operations_.data());
    Set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    Finalize(graph);
    if (!result_.ok()) return nullptr;
    Result last{static_cast<int>(CUDNN_STATUS_NOT_SUPPORTED), Library::kCudnn,
                "no engine for this attention"};
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      Desc heuristic = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      Set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
          &graph);
      Set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
      Finalize(heuristic);
      if (!result_.ok()) {
        last = std::exchange(result_, Result{});
        continue;
      }
      std::vector<Desc> engines(8);
      for (Desc& engine : engines) engine = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      std::int64_t found = 0;
      if (!result_.ok() ||
          cudnn_->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      static_cast<std::int64_t>(engines.size()), &found,
                      engines.data()) != CUDNN_STATUS_SUCCESS) {
        result_ = {};
        continue;
      }
      for (std::int64_t i = 0; i < found && i < static_cast<std::int64_t>(engines.size()); ++i) {
        Desc plan = nullptr;
        last = cudnn_->Told(cudnn_->make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
        if (!last.ok()) continue;
        const Desc& engine = engines[static_cast<std::size_t>(i)];
        last = cudnn_->Told(
            cudnn_->set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
        if (last.ok()) {
          last = cudnn_->Told(cudnn_->set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine));
        }
        if (last.ok()) last = cudnn_->Told(cudnn_->finalize(plan));
        if (last.ok()) return plan;
        cudnn_->unmake(plan);
      }
    }
    Fail(last);
    return nullptr;
  }

 private:
  void Done(Desc op) {
    Finalize(op);
    operations_.push_back(op);
  }

  Cudnn* cudnn_;
  Result result_;
  std::vector<Desc> made_, operations_;
  std::int64_t uids_ = 0;
};

// What a variant pack needs of the tensors that are not virtual.
struct Named {
  std::int64_t q = 0, k = 0, v = 0, o = 0, stats = 0, scale = 0, minus_infinity = 0;
  std::int64_t d_o = 0, d_q = 0, d_k = 0, d_v = 0, one = 0, row_sums = 0, d_q_sums = 0;
};

std::size_t AlignedWorkspace(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Sizes {
  std::int64_t b, hq, hk, sq, sk, d;
  explicit Sizes(const SdpaShape& s)
      : b(s.batch), hq(s.heads), hk(s.kv_heads), sq(s.q_len), sk(s.kv_len), d(s.head_dim) {}
  Dims QueryDims() const { return {b, hq, sq, d}; }
  Dims QueryStrides() const { return {hq * sq * d, sq * d, d, 1}; }
  Dims KeyDims() const { return {b, hk, sk, d}; }
  Dims KeyStrides() const { return {hk * sk * d, sk * d, d, 1}; }
  Dims TurnedKeyDims() const { return {b, hk, d, sk}; }
  Dims TurnedKeyStrides() const { return {hk * sk * d, sk * d, 1, d}; }
  Dims ScoreDims() const { return {b, hq, sq, sk}; }
  Dims ScoreStrides() const { return {hq * sq * sk, sq * sk, sk, 1}; }
  Dims TurnedScoreDims() const { return {b, hq, sk, sq}; }
  Dims TurnedScoreStrides() const { return {hq * sq * sk, sq * sk, 1, sk}; }
  Dims RowDims() const { return {b, hq, sq, 1}; }
  Dims RowStrides() const { return {hq * sq, sq, 1, 1}; }
};

// Scores under the causal mask.
Graph::Tensor Masked(Graph* g, const Sizes& s, const Graph::Tensor& scores, Named* named) {
  const Dims dims = s.ScoreDims(), strides = s.ScoreStrides();
  const auto row = g->Virtual(dims, strides, CUDNN_DATA_INT32);
  const auto column = g->Virtual(dims, strides, CUDNN_DATA_INT32);
  const auto seen = g->Virtual(dims, strides, CUDNN_DATA_BOOLEAN);
  const auto nothing = g->Scalar();
  named->minus_infinity = nothing.uid;
  const auto masked = g->Virtual(dims, strides);
  g->Pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, row, CUDNN_DATA_INT32, nullptr, 2);
  g->Pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, column, CUDNN_DATA_INT32, nullptr, 3);
  g->Pointwise(CUDNN_POINTWISE_CMP_GE, row, &column, seen, CUDNN_DATA_BOOLEAN);
  g->Pointwise(CUDNN_POINTWISE_BINARY_SELECT, scores, &nothing, masked, CUDNN_DATA_FLOAT, &seen);
  return masked;
}

void Forward(Graph* g, const SdpaShape& shape, Named* named) {
  const Sizes s(shape);
  const cudnnDataType_t io = shape.bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  const auto scores_like = [&](cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return g->Virtual(s.ScoreDims(), s.ScoreStrides(), type);
  };
  const auto row_like = [&] { return g->Virtual(s.RowDims(), s.RowStrides()); };
  const auto q = g->Real(s.QueryDims(), s.QueryStrides(), io);
  const auto k = g->Real(s.TurnedKeyDims(), s.TurnedKeyStrides(), io);
  const auto v = g->Real(s.KeyDims(), s.KeyStrides(), io);
  const auto o = g->Real(s.QueryDims(), s.QueryStrides(), io);
  const auto stats = g->Real(s.RowDims(), s.RowStrides(), CUDNN_DATA_FLOAT);
  const auto scale = g->Scalar();
  named->q = q.uid, named->k = k.uid, named->v = v.uid, named->o = o.uid;
  named->stats = stats.uid, named->scale = scale.uid;
  const auto raw = scores_like();
  g->Matmul(q, k, raw);
  auto scores = scores_like();
  g->Pointwise(CUDNN_POINTWISE_MUL, raw, &scale, scores);
  if (shape.causal) scores = Masked(g, s, scores, named);
  const auto most = row_like(), sum = row_like(), logarithm = row_like();
  const auto shifted = scores_like(), exponential = scores_like();
  const auto probabilities = scores_like(io);
  g->Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
  g->Pointwise(CUDNN_POINTWISE_SUB, scores, &most, shifted);
  g->Pointwise(CUDNN_POINTWISE_EXP, shifted, nullptr, exponential);
  g->Reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
  g->Pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
  g->Pointwise(CUDNN_POINTWISE_ADD, most, &logarithm, stats);
  g->Pointwise(CUDNN_POINTWISE_DIV, exponential, &sum, probabilities);
  g->Matmul(probabilities, v, o);
}

void Backward(Graph* g, const SdpaShape& shape, Named* named) {
  const Sizes s(shape);
  const cudnnDataType_t io = shape.bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  const auto scores_like = [&] { return g->Virtual(s.ScoreDims(), s.ScoreStrides()); };
  const auto q = g->Real(s.QueryDims(), s.QueryStrides(), io);
  const auto k = g->Real(s.TurnedKeyDims(), s.TurnedKeyStrides(), io);
  const auto v = g->Real(s.TurnedKeyDims(), s.TurnedKeyStrides(), io);
  const auto o = g->Real(s.QueryDims(), s.QueryStrides(), io);
  const auto d_o = g->Real(s.QueryDims(), s.QueryStrides(), io);
  const auto stats = g->Real(s.RowDims(), s.RowStrides(), CUDNN_DATA_FLOAT);
  const auto d_q = g->Real(s.QueryDims(), s.QueryStrides(), io);
  const auto d_k = g->Real(s.KeyDims(), s.KeyStrides(), io);
  const auto d_v = g->Real(s.KeyDims(), s.KeyStrides(), io);
  const auto scale = g->Scalar(), one = g->Scalar();
  const auto row_sums = g->Real(s.RowDims(), s.RowStrides(), CUDNN_DATA_FLOAT);
  const auto d_q_sums = g->Real(s.QueryDims(), s.QueryStrides(), CUDNN_DATA_FLOAT);
  named->q = q.uid, named->k = k.uid, named->v = v.uid, named->o = o.uid;
  named->stats = stats.uid, named->scale = scale.uid, named->one = one.uid;
  named->d_o = d_o.uid, named->d_q = d_q.uid, named->d_k = d_k.uid, named->d_v = d_v.uid;
  named->row_sums = row_sums.uid, named->d_q_sums = d_q_sums.uid;

  const auto products = g->Virtual(s.QueryDims(), {s.hq * s.sq * s.d, s.sq * s.d, s.hq * s.d, 1});
  const auto sums = g->Virtual(s.RowDims(), s.RowStrides());
  g->Pointwise(CUDNN_POINTWISE_MUL, d_o, &o, products);
  g->Reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  g->Pointwise(CUDNN_POINTWISE_MUL, sums, &one, row_sums);  // where a dropout would be undone

  const auto raw = scores_like(), scaled = scores_like();
  auto shifted = scores_like();
  g->Matmul(q, k, raw);
  g->Pointwise(CUDNN_POINTWISE_MUL, raw, &scale, scaled);
  g->Pointwise(CUDNN_POINTWISE_SUB, scaled, &stats, shifted);
  if (shape.causal) shifted = Masked(g, s, shifted, named);
  const auto probabilities = scores_like();
  g->Pointwise(CUDNN_POINTWISE_EXP, shifted, nullptr, probabilities);

  // Of heads that share keys every one has its own, added up afterwards.
  const bool shared = s.hq != s.hk;
  const auto to_keys = [&](const Graph::Tensor& turned, const Graph::Tensor& rows,
                           const Graph::Tensor& out) {
    if (!shared) {
      g->Matmul(turned, rows, out);
      return;
    }
    const auto each =
        g->Virtual({s.b, s.hq, s.sk, s.d}, {s.hq * s.sk * s.d, s.sk * s.d, s.d, 1}, io);
    g->Matmul(turned, rows, each);
    g->Reduce(CUDNN_REDUCE_TENSOR_ADD, each, out);
  };
  const auto turned_p = g->Virtual(s.TurnedScoreDims(), s.TurnedScoreStrides(), io);
  g->Reshape(probabilities, turned_p);
  to_keys(turned_p, d_o, d_v);

  const auto d_p = scores_like(), centred = scores_like(), weighted = scores_like(),
             d_s = scores_like();
  g->Matmul(d_o, v, d_p);
  g->Pointwise(CUDNN_POINTWISE_SUB, d_p, &row_sums, centred);
  g->Pointwise(CUDNN_POINTWISE_MUL, centred, &probabilities, weighted);
  g->Pointwise(CUDNN_POINTWISE_MUL, weighted, &scale, d_s);
  const auto turned_s = g->Virtual(s.TurnedScoreDims(), s.TurnedScoreStrides(), io);
  g->Reshape(d_s, turned_s);
  to_keys(turned_s, q, d_k);

  const auto k_again = g->Virtual(s.KeyDims(), s.KeyStrides(), io);
  g->Reshape(k, k_again);
  g->Matmul(d_s, k_again, d_q_sums);
  g->Pointwise(CUDNN_POINTWISE_IDENTITY, d_q_sums, nullptr, d_q);
}

struct RealSdpa {
  Cudnn* cudnn = nullptr;
  cudnnHandle_t handle = nullptr;
  SdpaShape shape;
  std::unique_ptr<Graph> graph;
  Named named;
  cudnnBackendDescriptor_t plan = nullptr;
  std::size_t workspace = 0;  // the plan's own
  float scale = 1, one = 1, minus_infinity = -std::numeric_limits<float>::infinity();
  ~RealSdpa() {
    if (plan != nullptr) cudnn->unmake(plan);
  }
  std::size_t RowSums() const {
    return AlignedWorkspace(static_cast<std::size_t>(4 * shape.batch * shape.heads * shape.q_len));
  }
  std::size_t QuerySums() const {
    return AlignedWorkspace(
        static_cast<std::size_t>(4 * shape.batch * shape.heads * shape.q_len * shape.head_dim));
  }
};

// What is refused before cuDNN is asked.
Result Possible(const Cudnn& cudnn, const SdpaShape& shape) {
  const auto no = [](const char* why) {
    return Result{static_cast<int>(CUDNN_STATUS_NOT_SUPPORTED), Library::kCudnn, why};
  };
  if (cudnn.version() < 90600) return no("older than 9.6");
  if (shape.causal && shape.q_len != shape.kv_len) {
    return no("a causal mask over more keys than queries is not asked of it");
  }
  if (shape.head_dim % 8 != 0) return no("head dimensions are multiples of 8");
  return {};
}

}  // namespace

Cudnn* CudnnOpen(void* library, FindSymbol find) {
  auto cudnn = std::make_unique<Cudnn>();
  const auto load = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(find(library, name));
    return *function != nullptr;
  };
  const bool all =
      load("cudnnGetVersion", &cudnn->version) && load("cudnnCreate", &cudnn->create) &&
      load("cudnnDestroy", &cudnn->destroy) && load("cudnnSetStream", &cudnn->set_stream) &&
      load("cudnnGetErrorString", &cudnn->text) &&
      load("cudnnBackendCreateDescriptor", &cudnn->make) &&
      load("cudnnBackendDestroyDescriptor", &cudnn->unmake) &&
      load("cudnnBackendFinalize", &cudnn->finalize) &&
      load("cudnnBackendSetAttribute", &cudnn->set) &&
      load("cudnnBackendGetAttribute", &cudnn->get) && load("cudnnBackendExecute", &cudnn->execute);
  load("cudnnGetLastErrorString", &cudnn->last_text);
  return all ? cudnn.release() : nullptr;
}

void CudnnClose(Cudnn* cudnn) {
  for (const auto& [device, handle] : cudnn->handles) {
    if (handle != nullptr) cudnn->destroy(handle);
  }
  delete cudnn;
}

std::size_t CudnnVersion(const Cudnn* cudnn) { return cudnn->version(); }

std::string CudnnDescribes(Cudnn* cudnn, const SdpaShape& shape) {
  if (const Result possible = Possible(*cudnn, shape); !possible.ok()) return possible.text;
  Graph graph(cudnn);
  Named named;
  shape.backward ? Backward(&graph, shape, &named) : Forward(&graph, shape, &named);
  return graph.result().text;
}

Result CudnnCreate(Cudnn* cudnn, const SdpaShape& shape, Sdpa* sdpa, std::size_t* workspace_bytes) {
  if (Result possible = Possible(*cudnn, shape); !possible.ok()) return possible;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    return {static_cast<int>(CUDNN_STATUS_NOT_INITIALIZED), Library::kCudnn, "no device"};
  }
  cudnnHandle_t& handle = cudnn->handles[device];
  if (handle == nullptr) {
    if (Result made = cudnn->Told(cudnn->create(&handle)); !made.ok()) return made;
  }
  auto made = std::make_unique<RealSdpa>();
  made->cudnn = cudnn;
  made->handle = handle;
  made->shape = shape;
  made->scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  made->graph = std::make_unique<Graph>(cudnn);
  Graph* g = made->graph.get();
  shape.backward ? Backward(g, shape, &made->named) : Forward(g, shape, &made->named);
  made->plan = g->Plan(handle);
  if (!g->result().ok()) return g->result();
  std::int64_t bytes = 0, count = 0;
  if (Result r = cudnn->Told(cudnn->get(made->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        CUDNN_TYPE_INT64, 1, &count, &bytes));
      !r.ok()) {
    return r;
  }
  made->workspace = AlignedWorkspace(static_cast<std::size_t>(bytes));
  *workspace_bytes =
      made->workspace + (shape.backward ? made->RowSums() + made->QuerySums() : 0) + 256;
  *sdpa = made.release();
  return {};
}

Result CudnnRun(Cudnn* cudnn, Sdpa sdpa, const SdpaBuffers& b, void* workspace, Stream stream) {
  auto* s = static_cast<RealSdpa*>(sdpa);
  const Named& n = s->named;
  std::vector<std::int64_t> uids = {n.q, n.k, n.v, n.o, n.stats, n.scale};
  std::vector<void*> pointers = {b.q, b.k, b.v, b.o, b.stats, &s->scale};
  const auto add = [&](std::int64_t uid, void* pointer) {
    uids.push_back(uid);
    pointers.push_back(pointer);
  };
  if (s->shape.causal) add(n.minus_infinity, &s->minus_infinity);
  char* own = static_cast<char*>(workspace) + s->workspace;
  if (s->shape.backward) {
    add(n.d_o, b.d_o);
    add(n.d_q, b.d_q);
    add(n.d_k, b.d_k);
    add(n.d_v, b.d_v);
    add(n.one, &s->one);
    add(n.row_sums, own);
    add(n.d_q_sums, own + s->RowSums());
  }
  cudnnBackendDescriptor_t pack = nullptr;
  Result r = cudnn->Told(cudnn->make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::size_t count, const void* values) {
    if (r.ok()) {
      r = cudnn->Told(cudnn->set(pack, name, type, static_cast<std::int64_t>(count), values));
    }
  };
  set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.size(), uids.data());
  set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.size(), pointers.data());
  set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  if (r.ok()) r = cudnn->Told(cudnn->finalize(pack));
  if (r.ok()) r = cudnn->Told(cudnn->set_stream(s->handle, static_cast<cudaStream_t>(stream)));
  if (r.ok()) r = cudnn->Told(cudnn->execute(s->handle, s->plan, pack));
  if (pack != nullptr) cudnn->unmake(pack);
  return r;
}

void CudnnDestroy(Cudnn*, Sdpa sdpa) { delete static_cast<RealSdpa*>(sdpa); }

}  // namespace aurum::cuda
