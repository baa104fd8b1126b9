#include "calibrate/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

// Grids are bounded and every kernel strides over its work, so that no size overflows a grid.

namespace aurum::cuda::kernels {
namespace {

constexpr int kThreads = 256;

unsigned Blocks(std::size_t work) {
  const std::size_t blocks = (work + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65536 ? 65536 : blocks);
}

__device__ std::uint64_t Mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;  // splitmix64: Steele, Lea and Flood, OOPSLA 2014
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Value i of a sequence of independent normal values: Box and Muller on two halves of a hash of i.
__device__ float Normal(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t bits = Mixed(seed ^ Mixed(i));
  const float u = (static_cast<float>(bits >> 40) + 1.0f) * (1.0f / 16777216.0f);
  const float v = static_cast<float>((bits >> 8) & 0xffffffU) * (1.0f / 16777216.0f);
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

template <typename T>
__device__ T From(float x) {
  return static_cast<T>(x);
}
template <>
__device__ __nv_bfloat16 From<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}
template <>
__device__ __half From<__half>(float x) {
  return __float2half(x);
}

template <typename T>
__global__ void FillKernel(T* out, std::size_t n, std::uint64_t seed) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    out[i] = From<T>(Normal(seed, i));
  }
}

__global__ void ReadWriteKernel(const uint4* __restrict__ from, uint4* __restrict__ to,
                                std::size_t n) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    uint4 v = from[i];
    v.x ^= 1U;  // not a copy that a compiler could give to a copy engine
    to[i] = v;
  }
}

__device__ float WarpMax(float x) {
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, d));
  return x;
}
__device__ float WarpSum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffU, x, d);
  return x;
}
// Over a block; every thread gets it. `scratch` has a place for each warp.
template <float (*kOver)(float)>
__device__ float BlockOver(float x, float empty, float* scratch) {
  x = kOver(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float y = threadIdx.x % 32 < blockDim.x / 32 ? scratch[threadIdx.x % 32] : empty;
  return kOver(y);
}

// One block a row, three passes over it: the second and third find it in a cache. Row r is query
// r mod period; causal: the last query sees the last key.
template <typename T>
__global__ void SoftmaxForwardKernel(const T* __restrict__ scores, T* __restrict__ out,
                                     float* __restrict__ stats, std::size_t rows, int columns,
                                     int period, bool causal) {
  __shared__ float scratch[32];
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = scores + row * columns;
    T* to = out + row * columns;
    int seen = columns;
    if (causal) {
      const int query = static_cast<int>(row % period);
      seen = columns - period + query + 1;
      seen = seen < 0 ? 0 : seen > columns ? columns : seen;
    }
    float most = -INFINITY;
    for (int c = threadIdx.x; c < seen; c += blockDim.x) {
      most = fmaxf(most, static_cast<float>(in[c]));
    }
    most = BlockOver<WarpMax>(most, -INFINITY, scratch);
    if (!(most > -INFINITY)) most = 0;
    float sum = 0;
    for (int c = threadIdx.x; c < seen; c += blockDim.x) {
      sum += __expf(static_cast<float>(in[c]) - most);
    }
    sum = BlockOver<WarpSum>(sum, 0, scratch);
    const float inverse = sum > 0 ? 1.0f / sum : 0;
    if (stats != nullptr && threadIdx.x == 0) stats[row] = most + logf(sum);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
      const float p = c < seen ? __expf(static_cast<float>(in[c]) - most) * inverse : 0.0f;
      to[c] = From<T>(p);
    }
  }
}

// ds = p ∘ (dp − Σ p ∘ dp) · scale, row by row.
template <typename T>
__global__ void SoftmaxBackwardKernel(const T* __restrict__ p, const T* __restrict__ dp,
                                      T* __restrict__ ds, std::size_t rows, int columns,
                                      float scale) {
  __shared__ float scratch[32];
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::size_t base = row * columns;
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
      sum += static_cast<float>(p[base + c]) * static_cast<float>(dp[base + c]);
    }
    sum = BlockOver<WarpSum>(sum, 0, scratch);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
      const float value =
          static_cast<float>(p[base + c]) * (static_cast<float>(dp[base + c]) - sum) * scale;
      ds[base + c] = From<T>(value);
    }
  }
}

__global__ void EmptyKernel() {}

__device__ std::uint64_t Now() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void StampKernel(std::uint64_t* at) { *at = Now(); }

__global__ void DelayKernel(const std::uint64_t* start, std::uint64_t not_before,
                            std::uint64_t length) {
  constexpr std::uint64_t kMost = 10000000000ULL;
  const std::uint64_t now = Now();
  std::uint64_t from = now;
  if (start != nullptr && *start + not_before > from) from = *start + not_before;
  std::uint64_t end = from + length;
  if (end > now + kMost) end = now + kMost;
  while (Now() < end) __nanosleep(200);
}

template <typename T>
__global__ void CompareKernel(const T* a, const T* b, std::size_t n, double* sums) {
  double difference = 0, size = 0, odd = 0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const float x = static_cast<float>(a[i]);
    const float y = static_cast<float>(b[i]);
    if (!isfinite(x) || !isfinite(y)) {
      odd += 1;
      continue;
    }
    difference += fabs(static_cast<double>(x) - y);
    size += fabs(static_cast<double>(y));
  }
  atomicAdd(sums, difference);
  atomicAdd(sums + 1, size);
  atomicAdd(sums + 2, odd);
}

__global__ void HashKernel(const std::uint32_t* in, std::size_t n, unsigned long long* hash) {
  std::uint64_t sum = 0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    sum += Mixed((static_cast<std::uint64_t>(i) << 32) ^ in[i]);
  }
  atomicAdd(hash, static_cast<unsigned long long>(sum));
}

}  // namespace

int FillNormal(void* memory, std::size_t elements, int numbers, std::uint64_t seed, void* stream) {
  auto* s = static_cast<cudaStream_t>(stream);
  const unsigned blocks = Blocks(elements);
  switch (numbers) {
    case 0:
      FillKernel<<<blocks, kThreads, 0, s>>>(static_cast<__nv_bfloat16*>(memory), elements, seed);
      break;
    case 1:
      FillKernel<<<blocks, kThreads, 0, s>>>(static_cast<__half*>(memory), elements, seed);
      break;
    case 2:
      FillKernel<<<blocks, kThreads, 0, s>>>(static_cast<float*>(memory), elements, seed);
      break;
    default:
      FillKernel<<<blocks, kThreads, 0, s>>>(static_cast<__nv_fp8_e4m3*>(memory), elements, seed);
  }
  return static_cast<int>(cudaGetLastError());
}

int ReadWrite(const void* from, void* to, std::size_t bytes, void* stream) {
  const std::size_t n = (bytes + 15) / 16;
  ReadWriteKernel<<<Blocks(n), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), n);
  return static_cast<int>(cudaGetLastError());
}

int SoftmaxForward(const void* scores, void* probabilities, float* stats, std::size_t rows,
                   int columns, int row_period, bool causal, bool bf16, void* stream) {
  const unsigned blocks = static_cast<unsigned>(rows < 1 ? 1 : rows > 1048576 ? 1048576 : rows);
  auto* s = static_cast<cudaStream_t>(stream);
  if (bf16) {
    SoftmaxForwardKernel<<<blocks, kThreads, 0, s>>>(static_cast<const __nv_bfloat16*>(scores),
                                                     static_cast<__nv_bfloat16*>(probabilities),
                                                     stats, rows, columns, row_period, causal);
  } else {
    SoftmaxForwardKernel<<<blocks, kThreads, 0, s>>>(static_cast<const __half*>(scores),
                                                     static_cast<__half*>(probabilities), stats,
                                                     rows, columns, row_period, causal);
  }
  return static_cast<int>(cudaGetLastError());
}

int SoftmaxBackward(const void* probabilities, const void* gradient, void* result, std::size_t rows,
                    int columns, float scale, bool bf16, void* stream) {
  const unsigned blocks = static_cast<unsigned>(rows < 1 ? 1 : rows > 1048576 ? 1048576 : rows);
  auto* s = static_cast<cudaStream_t>(stream);
  if (bf16) {
    SoftmaxBackwardKernel<<<blocks, kThreads, 0, s>>>(
        static_cast<const __nv_bfloat16*>(probabilities),
        static_cast<const __nv_bfloat16*>(gradient), static_cast<__nv_bfloat16*>(result), rows,
        columns, scale);
  } else {
    SoftmaxBackwardKernel<<<blocks, kThreads, 0, s>>>(
        static_cast<const __half*>(probabilities), static_cast<const __half*>(gradient),
        static_cast<__half*>(result), rows, columns, scale);
  }
  return static_cast<int>(cudaGetLastError());
}

int Empty(void* stream) {
  EmptyKernel<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
  return static_cast<int>(cudaGetLastError());
}

int StampTime(void* device_time, void* stream) {
  StampKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<std::uint64_t*>(device_time));
  return static_cast<int>(cudaGetLastError());
}

int Delay(const void* device_time, std::uint64_t not_before_ns, std::uint64_t for_ns,
          void* stream) {
  DelayKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const std::uint64_t*>(device_time), not_before_ns, for_ns);
  return static_cast<int>(cudaGetLastError());
}

int Compare(const void* a, const void* b, std::size_t elements, int numbers, double* sums,
            void* stream) {
  auto* s = static_cast<cudaStream_t>(stream);
  const unsigned blocks = Blocks(elements) > 1024 ? 1024 : Blocks(elements);
  switch (numbers) {
    case 0:
      CompareKernel<<<blocks, kThreads, 0, s>>>(static_cast<const __nv_bfloat16*>(a),
                                                static_cast<const __nv_bfloat16*>(b), elements,
                                                sums);
      break;
    case 1:
      CompareKernel<<<blocks, kThreads, 0, s>>>(static_cast<const __half*>(a),
                                                static_cast<const __half*>(b), elements, sums);
      break;
    case 2:
      CompareKernel<<<blocks, kThreads, 0, s>>>(static_cast<const float*>(a),
                                                static_cast<const float*>(b), elements, sums);
      break;
    default:
      return static_cast<int>(cudaErrorInvalidValue);
  }
  return static_cast<int>(cudaGetLastError());
}

int Hash(const void* memory, std::size_t bytes, std::uint64_t* hash, void* stream) {
  const std::size_t n = bytes / 4;
  const unsigned blocks = Blocks(n) > 1024 ? 1024 : Blocks(n);
  HashKernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const std::uint32_t*>(memory), n, reinterpret_cast<unsigned long long*>(hash));
  return static_cast<int>(cudaGetLastError());
}

}  // namespace aurum::cuda::kernels
