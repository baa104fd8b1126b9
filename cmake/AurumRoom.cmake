# Compiler settings for all of our code, and the one way to declare a room, a test and a fuzz target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(AURUM_CCACHE ccache)
if(AURUM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${AURUM_CCACHE}")
endif()

# Same input, same bytes: no contraction of a*b+c, no fast-math, on any compiler.
set(AURUM_COMPILE_OPTIONS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    -Werror -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false overlaps inside std::string's operator+ (GCC bug 105651); clang-tidy does not know the option.
  list(APPEND AURUM_COMPILE_OPTIONS -Wno-restrict -Wno-unknown-warning-option)
endif()
set(AURUM_LINK_OPTIONS "")
if(AURUM_SANITIZE)
  list(APPEND AURUM_COMPILE_OPTIONS -fsanitize=${AURUM_SANITIZE} -fno-omit-frame-pointer -g)
  list(APPEND AURUM_LINK_OPTIONS -fsanitize=${AURUM_SANITIZE})
  if(AURUM_SANITIZE STREQUAL "undefined")
    list(APPEND AURUM_COMPILE_OPTIONS -fno-sanitize-recover=all)
  endif()
endif()
if(AURUM_FUZZ)
  list(APPEND AURUM_COMPILE_OPTIONS -fsanitize=fuzzer-no-link,address,undefined
       -fno-sanitize-recover=all)
  list(APPEND AURUM_LINK_OPTIONS -fsanitize=address,undefined)
endif()
if(AURUM_TIDY)
  find_program(AURUM_CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY "${AURUM_CLANG_TIDY}" --quiet)
endif()

# aurum_unity(TARGET): where AURUM_UNITY is ON, TARGET's files are compiled eight at a time. Most of a file's time goes
# into the headers of the standard library and of doctest, which eight files then read once.
function(aurum_unity target)
  if(AURUM_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # A type that has a member of an unnamed namespace is only wrong in a file that others include, for which g++
      # takes every file of a batch. The other presets look at each file by itself and keep the warning.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# aurum_room(NAME SOURCES ... DEPENDS ... PRIVATE_DEPENDS ...): one static library, included by path from the root.
function(aurum_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(aurum_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(aurum_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_compile_options(aurum_${name} PRIVATE ${AURUM_COMPILE_OPTIONS})
  target_link_options(aurum_${name} PUBLIC ${AURUM_LINK_OPTIONS})
  aurum_unity(aurum_${name})
  target_link_libraries(aurum_${name} PUBLIC ${ROOM_DEPENDS} PRIVATE ${ROOM_PRIVATE_DEPENDS})
endfunction()

# aurum_test(NAME SOURCES ... DEPENDS ...): a doctest binary that ctest runs from the root of the source tree. What it
# tests is optimized as ever; its own code runs once, and takes a quarter less time to compile with -O1.
function(aurum_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name}_test ${TEST_SOURCES})
  target_compile_options(${name}_test PRIVATE ${AURUM_COMPILE_OPTIONS} $<$<CONFIG:Release>:-O1>)
  aurum_unity(${name}_test)
  target_link_libraries(${name}_test PRIVATE ${TEST_DEPENDS} aurum_test_main)
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
endfunction()
