#pragma once

#include <cstddef>
#include <cstdint>

// Kernels of ours. Each returns cudaGetLastError() of its launch; `stream` is a cudaStream_t.
// Values are 0 bf16, 1 fp16, 2 fp32, 3 fp8 (e4m3): Numbers of gemm_layout.h.
namespace aurum::cuda::kernels {

int FillNormal(void* memory, std::size_t elements, int numbers, std::uint64_t seed, void* stream);
int ReadWrite(const void* from, void* to, std::size_t bytes, void* stream);
int SoftmaxForward(const void* scores, void* probabilities, float* stats, std::size_t rows,
                   int columns, int row_period, bool causal, bool bf16, void* stream);
int SoftmaxBackward(const void* probabilities, const void* gradient, void* result, std::size_t rows,
                    int columns, float scale, bool bf16, void* stream);
int Empty(void* stream);
int StampTime(void* device_time, void* stream);
int Delay(const void* device_time, std::uint64_t not_before_ns, std::uint64_t for_ns, void* stream);
int Compare(const void* a, const void* b, std::size_t elements, int numbers, double* sums,
            void* stream);
int Hash(const void* memory, std::size_t bytes, std::uint64_t* hash, void* stream);

}  // namespace aurum::cuda::kernels
