# Finds OpenBLAS with its C interface: Debian's packages (pthread, serial or openmp), or where OpenBLAS_ROOT says.
#
# OpenBLAS_FOUND, OpenBLAS_VERSION, and the target OpenBLAS::openblas. Another BLAS will not do: the precautions of
# calibrate/cpu (its kernels chosen by OPENBLAS_CORETYPE, one thread) are OpenBLAS's own.

set(_openblas_suffixes openblas-pthread openblas-serial openblas-openmp openblas)
set(_openblas_places)
foreach(_openblas_suffix IN LISTS _openblas_suffixes)
  list(APPEND _openblas_places "${CMAKE_LIBRARY_ARCHITECTURE}/${_openblas_suffix}" "${_openblas_suffix}")
endforeach()

find_path(OpenBLAS_INCLUDE_DIR openblas_config.h HINTS ${OpenBLAS_ROOT} ENV OpenBLAS_ROOT
          PATH_SUFFIXES include ${_openblas_places} "${CMAKE_LIBRARY_ARCHITECTURE}")
find_library(OpenBLAS_LIBRARY openblas HINTS ${OpenBLAS_ROOT} ENV OpenBLAS_ROOT
             PATH_SUFFIXES lib ${_openblas_places})

if(OpenBLAS_INCLUDE_DIR)
  file(STRINGS "${OpenBLAS_INCLUDE_DIR}/openblas_config.h" _openblas_line REGEX "OPENBLAS_VERSION")
  if(_openblas_line MATCHES "OpenBLAS ([0-9]+\\.[0-9]+\\.[0-9]+)")
    set(OpenBLAS_VERSION "${CMAKE_MATCH_1}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR
                                  VERSION_VAR OpenBLAS_VERSION)
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::openblas)
  add_library(OpenBLAS::openblas UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::openblas PROPERTIES IMPORTED_LOCATION "${OpenBLAS_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS_INCLUDE_DIR}")
endif()
