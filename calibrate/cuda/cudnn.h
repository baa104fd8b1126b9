#pragma once

#include <cstddef>

#include "calibrate/cuda/api.h"

namespace aurum::cuda {

// Finds a function of a library that has been loaded; nullptr where it has none.
using FindSymbol = void* (*)(void* library, const char* name);

// Fused attention by cuDNN's backend API. One object a process; `library` is a handle of
// libcudnn.so.9.
class Cudnn;
Cudnn* CudnnOpen(void* library, FindSymbol find);  // nullptr: not a cuDNN that has what we call
void CudnnClose(Cudnn* cudnn);
std::size_t CudnnVersion(const Cudnn* cudnn);
Result CudnnCreate(Cudnn* cudnn, const SdpaShape& shape, Sdpa* sdpa, std::size_t* workspace_bytes);
Result CudnnRun(Cudnn* cudnn, Sdpa sdpa, const SdpaBuffers& buffers, void* workspace,
                Stream stream);
void CudnnDestroy(Cudnn* cudnn, Sdpa sdpa);
// Whether the library takes the operations of `shape` as descriptors: "" or what it says. Needs no
// GPU, since no engine is asked for.
std::string CudnnDescribes(Cudnn* cudnn, const SdpaShape& shape);

}  // namespace aurum::cuda
