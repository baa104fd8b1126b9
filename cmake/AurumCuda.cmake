# CUDA for what runs on GPUs: aurum_cuda_kernels(TARGET FILE...) compiles our kernels into TARGET.
#
# nvcc is called as a plain command: as a CMake language it would be asked for, and fail, where there is none. One object
# for each file, for four generations of GPUs and PTX for those to come. Sets AURUM_CUDA where nvcc and the headers of
# cuBLASLt, cuDNN and NCCL are found; the libraries themselves are loaded when the program runs.

set(AURUM_CUDA OFF)
set(AURUM_CUDA_MISSING "")
if(NOT TARGET CUDA::cudart_static)
  set(AURUM_CUDA_MISSING "the CUDA toolkit")
elseif(NOT CUDAToolkit_NVCC_EXECUTABLE)
  set(AURUM_CUDA_MISSING "nvcc")
else()
  foreach(header cublasLt.h cudnn_graph.h nccl.h)
    find_file(AURUM_HEADER_${header} ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
    if(NOT AURUM_HEADER_${header})
      list(APPEND AURUM_CUDA_MISSING "${header}")
    endif()
  endforeach()
endif()
if(AURUM_CUDA_MISSING STREQUAL "")
  set(AURUM_CUDA ON)
  message(STATUS "GPUs: CUDA ${CUDAToolkit_VERSION}")
else()
  message(STATUS "GPUs: none, ${AURUM_CUDA_MISSING} is not here; everything else builds")
endif()

function(aurum_cuda_kernels target)
  foreach(source ${ARGN})
    get_filename_component(name "${source}" NAME_WE)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" -std=c++17 -O3 "-I${PROJECT_SOURCE_DIR}" --threads 2
        -Xcompiler -fPIC
        -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
        -gencode arch=compute_100,code=sm_100 -gencode "arch=compute_120,code=[sm_120,compute_120]"
        -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" "${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels.h"
      COMMENT "nvcc ${source}"
      VERBATIM)
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE "${object}")
  endforeach()
endfunction()
