# Functions that declare libraries, programs and tests with common warnings and options.

add_library(lazyfs_flags INTERFACE)
target_compile_options(lazyfs_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wnull-dereference
  $<$<BOOL:${LAZYFS_WERROR}>:-Werror> $<$<CONFIG:Debug>:-D_GLIBCXX_ASSERTIONS>)
target_compile_options(lazyfs_flags INTERFACE -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports impossible paths inside libstdc++ at -O2; see gcc PR 105329 and PR 105562.
  target_compile_options(lazyfs_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized
                                                -Wno-null-dereference -Wno-stringop-overflow
                                                -Wno-stringop-overread)
endif()
target_link_libraries(lazyfs_flags INTERFACE Threads::Threads)
if(LAZYFS_SANITIZE)
  # With -fsanitize=thread g++ 12 also warns of libstdc++'s short strings (-Warray-bounds).
  target_compile_options(lazyfs_flags INTERFACE -fsanitize=${LAZYFS_SANITIZE} -Wno-array-bounds
                                                -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lazyfs_flags INTERFACE -fsanitize=${LAZYFS_SANITIZE})
endif()

if(LAZYFS_FUZZ)
  target_compile_options(lazyfs_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# lazyfs_base compiles the precompiled header src/base/precompiled.h; other libraries and programs
# reuse it. base_test compiles it with GoogleTest; other tests reuse that one. g++ accepts a
# precompiled header only with the same options for position-independent code, so programs are
# compiled like libraries.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
function(lazyfs_precompiled name owner)
  if(name STREQUAL owner)
    target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/base/precompiled.h ${ARGN})
  else()
    target_precompile_headers(${name} REUSE_FROM ${owner})
  endif()
endfunction()

# lazyfs_library(name SOURCES a.cc b.cc LINKS lib...)
function(lazyfs_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC lazyfs_flags ${ARG_LINKS})
  lazyfs_precompiled(${name} lazyfs_base)
endfunction()

# lazyfs_program(name SOURCES a.cc LINKS lib...)
function(lazyfs_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lazyfs_flags ${ARG_LINKS})
  lazyfs_precompiled(${name} lazyfs_base)
endfunction()

# lazyfs_test(name SOURCES a_test.cc LINKS lib... [LABELS ...] [TIMEOUT seconds])
# One GoogleTest program; CTest runs it as one test, so that shared fixtures are set up once.
# -O1: a test's own objects compile in two thirds of the time, and what is tested keeps -O2.
# libstdc++'s assertions: a test that asks a Result with a value for its error must not pass.
function(lazyfs_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lazyfs_flags GTest::gtest GTest::gtest_main ${ARG_LINKS})
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  target_compile_definitions(${name} PRIVATE _GLIBCXX_ASSERTIONS)
  lazyfs_precompiled(${name} base_test <gtest/gtest.h>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(LAZYFS_SANITIZE)
    math(EXPR ARG_TIMEOUT "6 * ${ARG_TIMEOUT}")  # sanitizers make a test slower
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}")
endfunction()

# lazyfs_test_on_devices(name kind...): runs the program again on devices of these kinds: `plain`
# has no write pointers, `zoned` few partly written bands (test/support/test_device.h).
function(lazyfs_test_on_devices name)
  get_test_property(${name} TIMEOUT timeout)
  get_test_property(${name} LABELS labels)
  foreach(kind ${ARGN})
    add_test(NAME ${name}_${kind} COMMAND ${name})
    set_tests_properties(${name}_${kind} PROPERTIES
      TIMEOUT "${timeout}" LABELS "${labels}" ENVIRONMENT "LAZYFS_TEST_DEVICE=${kind}")
  endforeach()
endfunction()

# lazyfs_test_in_full(name...): `make check-long` runs these tests again with all of their rounds
# (test/support/rounds.h).
function(lazyfs_test_in_full)
  foreach(name ${ARGN})
    get_test_property(${name} ENVIRONMENT environment)
    if(NOT environment)
      set(environment)
    endif()
    string(REGEX REPLACE "_(plain|zoned)$" "" program ${name})
    add_test(NAME long_${name} COMMAND ${program})
    set_tests_properties(long_${name} PROPERTIES
      TIMEOUT 1800 LABELS long ENVIRONMENT "${environment};LAZYFS_ROUNDS=full")
  endforeach()
endfunction()

# lazyfs_collect(name folder): a target that builds everything in a folder that `all` leaves out.
function(lazyfs_collect name folder)
  if(NOT TARGET ${name})
    add_custom_target(${name})
  endif()
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  if(targets)
    add_dependencies(${name} ${targets})
  endif()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(part ${below})
    lazyfs_collect(${name} ${part})
  endforeach()
endfunction()
