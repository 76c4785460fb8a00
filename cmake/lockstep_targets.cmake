# Functions that make targets, so that a folder's CMakeLists.txt is a list of
# names.
#
#   lockstep_library(NAME  SOURCES a.cc ...  DEPS other ... absl::status ...
#                          [PCH <a.h> ...] [NO_UNITY])
#   lockstep_proto(NAME    PROTOS a.proto ...)         protobuf classes, and gRPC's of services
#   lockstep_binary(NAME   SOURCES main.cc  DEPS ...)  into build/<preset>/bin
#   lockstep_test(NAME     SOURCES a_test.cc ...  DEPS ...  [LABELS unit ...]
#                          [TIMEOUT seconds] [NO_UNITY] [ONE_THREAD] [SANITIZED_ONLY])
#   lockstep_register_test(NAME  COMMAND program args ...  [LABELS ...] [ENV A=b ...]
#                          [NEEDS target ... | NOTHING] [TIMEOUT seconds]
#                          [PROCESSORS n] [SERIAL])
#   lockstep_regression(NUMBER NAME  CASES test_target gtest_filter
#                       | COMMAND program args ... [NEEDS target ... | NOTHING]
#                       [TIMEOUT seconds] [SERIAL])    see tests/regressions/README.md
#   lockstep_complaint(NAME  CASES ... | COMMAND ...)   as lockstep_regression; see
#                       tests/catalogue/CMakeLists.txt
#   lockstep_mistake(RULE NAME  CASES ... | COMMAND ...)   as lockstep_regression; see
#                       docs/fake-gpus.md; lockstep_mistakes(TEST CASES "RULE NAME Case" ...)
#   lockstep_register_again(ENTRY LABEL  CASES ... | COMMAND ...)   what these two do
#   lockstep_list_test_targets()           at the end, for `./run test FILTER`
#
# A library is static, position independent and has hidden symbols:
# lockstep::client is made from the objects of the libraries it needs. A test is
# one binary and one ctest entry, "<preset>.<name>"; besides its own labels it
# has the preset's name as a label if that is asan or tsan. A test that cannot
# run here (no GPU) exits with 77 and is listed as skipped. PROCESSORS: how many
# cores a test uses. SERIAL: no other test runs meanwhile. A program that is a
# target of this project and depends on all programs that it starts
# (add_dependencies) can be built and run alone; any other COMMAND needs all
# targets, or those of NEEDS. Tests with a longer TIMEOUT begin first, so that
# none of them is alone at the end. ONE_THREAD: has nothing for ThreadSanitizer to
# find; the tsan preset leaves it out. SANITIZED_ONLY: runs the same cases under
# AddressSanitizer, and needs neither speed nor programs; the release preset
# leaves it out. What a preset leaves out can still be built there by its name.
#
# PCH precompiles third-party headers for a target (`<grpcpp/grpcpp.h>`): it
# pays from about three files that include gRPC, 4.1 s each without and 2.3 s
# with.
#
# With LOCKSTEP_UNITY the sources of a target are compiled together: half the
# compile time of a clean build, but more after an edit. So names in anonymous
# namespaces must be unique in their target. NO_UNITY is for sources that cannot
# be joined (Highway compiles its files several times). CMake's own UNITY_BUILD
# includes sources by their absolute paths, and then no compiler cache serves a
# second checkout.

include_guard(GLOBAL)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()
# GCC collects garbage from 128 MiB on by default, which takes a sixth of the time
# that it needs for a test. A job takes up to 1 GiB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-expand=200 --param ggc-min-heapsize=524288>")
  # AddressSanitizer's checks as calls: a sixth less to compile.
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
    add_compile_options(
      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param asan-instrumentation-with-call-threshold=0>")
  endif()
endif()
# With -Og xxHash's functions cannot be inlined where it insists.
add_compile_definitions($<$<CONFIG:None>:XXH_NO_INLINE_HINTS>)
set(LOCKSTEP_PRESET "" CACHE STRING "Name of the preset, in the names of tests")

# How many sources are compiled as one. The sanitizers' presets are for whole
# runs: there nearly every target is one, which takes a third less than three. In
# the others an edit is compiled with fewer.
if(LOCKSTEP_PRESET MATCHES "^(asan|tsan|fuzz)$")
  set(lockstep_unity_batch 48)
  set(lockstep_unity_batch_of_tests 48)
else()
  set(lockstep_unity_batch 12)
  set(lockstep_unity_batch_of_tests 8)
endif()

# Debian's Python, for tests written in Python (standard library only).
find_program(LOCKSTEP_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(LOCKSTEP_PYTHON python3 REQUIRED)

find_package(Threads REQUIRED)
find_package(absl REQUIRED CONFIG)

add_library(lockstep_warnings INTERFACE)
# Joined sources get warnings that their files do not: GCC 12 inlines more and
# then takes empty optionals for uninitialised, and regards only the including
# file as a main file. Builds without unity check for both.
target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(LOCKSTEP_UNITY)
  target_compile_options(lockstep_warnings INTERFACE -Wno-maybe-uninitialized
                         -Wno-subobject-linkage)
endif()
if(LOCKSTEP_WARNINGS_ARE_ERRORS)
  target_compile_options(lockstep_warnings INTERFACE -Werror)
endif()

# Compiles the sources of a target BATCH at a time, in their order. Generated ones
# stay alone, and those with SKIP_UNITY_BUILD_INCLUSION or options of their own:
# the folder's CMakeLists.txt may give these later.
function(_lockstep_join_sources name batch)
  cmake_language(EVAL CODE
    "cmake_language(DEFER CALL _lockstep_join_sources_now [[${name}]] [[${batch}]])")
endfunction()

function(_lockstep_join_sources_now name batch)
  get_target_property(sources ${name} SOURCES)
  set(alone)
  set(joined)
  foreach(source ${sources})
    get_filename_component(path "${source}" ABSOLUTE)
    get_source_file_property(skip "${source}" SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    get_source_file_property(generated "${source}" GENERATED)
    if(NOT path MATCHES "\\.cc$" OR skip OR options OR generated)
      list(APPEND alone "${source}")
    else()
      file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${path}")
      list(APPEND joined "${path}")
    endif()
  endforeach()
  list(LENGTH joined count)
  if(count LESS 2)
    return()
  endif()
  set(first 0)
  while(first LESS count)
    list(SUBLIST joined ${first} ${batch} part)
    list(TRANSFORM part REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN part "" text)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/joined/${name}_${first}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
    list(APPEND alone "${file}")
    math(EXPR first "${first} + ${batch}")
  endwhile()
  set_property(TARGET ${name} PROPERTY SOURCES ${alone})
endfunction()

function(lockstep_library name)
  cmake_parse_arguments(ARG "NO_UNITY" "" "SOURCES;DEPS;PCH" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    if(LOCKSTEP_PRESET MATCHES "^(asan|tsan|fuzz)$")
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    if(LOCKSTEP_UNITY AND NOT ARG_NO_UNITY)
      _lockstep_join_sources(${name} ${lockstep_unity_batch})
    else()
      target_precompile_headers(${name} PRIVATE ${ARG_PCH})
    endif()
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE lockstep_warnings)
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
  endif()
endfunction()

function(lockstep_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(LOCKSTEP_UNITY)
    _lockstep_join_sources(${name} ${lockstep_unity_batch})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} lockstep_warnings)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
endfunction()

# What nearly every test includes, compiled once: a program, so that its code is
# compiled as theirs is.
function(_lockstep_test_precompiled)
  if(TARGET lockstep_test_precompiled)
    return()
  endif()
  set(source "${PROJECT_BINARY_DIR}/test_precompiled.cc")
  file(WRITE "${source}" "int main() {}\n")
  add_executable(lockstep_test_precompiled EXCLUDE_FROM_ALL "${source}")
  target_precompile_headers(lockstep_test_precompiled PRIVATE
    <algorithm> <atomic> <functional> <map> <memory> <optional> <string> <thread> <utility>
    <vector> <gmock/gmock.h> <gtest/gtest.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/time/time.h>)
  target_link_libraries(lockstep_test_precompiled PRIVATE GTest::gmock absl::statusor
                        absl::str_format absl::time Threads::Threads lockstep_warnings)
endfunction()

function(lockstep_test name)
  cmake_parse_arguments(ARG "NO_UNITY;ONE_THREAD;SANITIZED_ONLY" "TIMEOUT" "SOURCES;DEPS;LABELS"
                        ${ARGN})
  find_package(GTest REQUIRED CONFIG)
  add_executable(${name} ${ARG_SOURCES})
  _lockstep_test_precompiled()
  target_precompile_headers(${name} REUSE_FROM lockstep_test_precompiled)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main
                        Threads::Threads lockstep_warnings)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(NOT ARG_NO_UNITY)
    _lockstep_join_sources(${name} ${lockstep_unity_batch_of_tests})
  endif()
  set_target_properties(${name} PROPERTIES LOCKSTEP_SANITIZED_ONLY ${ARG_SANITIZED_ONLY})
  if(ARG_SANITIZED_ONLY)
    _lockstep_refuse_shortened(${name} ${ARG_SOURCES})
  endif()
  if((ARG_ONE_THREAD AND LOCKSTEP_PRESET STREQUAL "tsan")
     OR (ARG_SANITIZED_ONLY AND LOCKSTEP_PRESET STREQUAL "release"))
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  lockstep_register_test(${name} COMMAND ${name} LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# A test that is shorter under every sanitizer runs in full length in release.
function(_lockstep_refuse_shortened name)
  foreach(source ${ARGN})
    get_filename_component(source "${source}" ABSOLUTE)
    file(STRINGS "${source}" shortened REGEX "kUnderSanitizer" LIMIT_COUNT 1)
    if(shortened)
      message(FATAL_ERROR "${name} is SANITIZED_ONLY, so nothing would run all of ${source}, "
                          "which checks kUnderSanitizer")
    endif()
  endforeach()
endfunction()

function(lockstep_register_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;PROCESSORS" "COMMAND;LABELS;ENV;NEEDS" ${ARGN})
  if(LOCKSTEP_PRESET)
    set(entry "${LOCKSTEP_PRESET}.${name}")
  else()
    set(entry "${name}")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(LOCKSTEP_PRESET STREQUAL "asan")
    set(ARG_LABELS asan ${ARG_LABELS})
    set(ARG_ENV UBSAN_OPTIONS=print_stacktrace=1 ${ARG_ENV})
  elseif(LOCKSTEP_PRESET STREQUAL "tsan")
    set(ARG_LABELS tsan ${ARG_LABELS})
    set(ARG_ENV TSAN_OPTIONS=second_deadlock_stack=1 ${ARG_ENV})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  add_test(NAME ${entry} COMMAND ${ARG_COMMAND})
  list(GET ARG_COMMAND 0 program)
  if(TARGET ${program})
    get_target_property(left_out ${program} EXCLUDE_FROM_ALL)
    if(left_out)
      message(FATAL_ERROR "${entry} runs ${program}, which the preset ${LOCKSTEP_PRESET} leaves out")
    endif()
    list(APPEND ARG_NEEDS ${program})
  endif()
  if(ARG_NEEDS)
    list(REMOVE_ITEM ARG_NEEDS NOTHING)
    list(JOIN ARG_NEEDS " " needs)
    set_property(GLOBAL APPEND_STRING PROPERTY LOCKSTEP_TEST_TARGETS "${entry} ${needs}\n")
  endif()
  set_tests_properties(${entry} PROPERTIES
    LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENV}"
    PROCESSORS ${ARG_PROCESSORS} RUN_SERIAL ${ARG_SERIAL} SKIP_RETURN_CODE 77)
endfunction()

# Registers the cases of a test, which is declared before, or a command, again:
# as `entry`, with one label. In one preset: release, or asan if the test is
# SANITIZED_ONLY. Cases have the label `again` besides: a run of all tests leaves
# them out, because their program runs whole, and checks only that there are such.
function(lockstep_register_again entry label)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT" "CASES;COMMAND;NEEDS" ${ARGN})
  set(elsewhere asan tsan)
  if(ARG_CASES)
    list(GET ARG_CASES 0 test)
    get_target_property(sanitized_only ${test} LOCKSTEP_SANITIZED_ONLY)
    if(sanitized_only)
      set(elsewhere release tsan)
    endif()
  endif()
  if(LOCKSTEP_PRESET IN_LIST elsewhere)
    return()
  endif()
  if(ARG_CASES)
    list(POP_FRONT ARG_CASES test filter)
    set(ARG_COMMAND ${LOCKSTEP_PYTHON} "${PROJECT_SOURCE_DIR}/tests/regressions/run_cases.py"
        "$<TARGET_FILE:${test}>" "${filter}")
    set(ARG_NEEDS ${test})
    set_property(GLOBAL APPEND_STRING PROPERTY LOCKSTEP_CASES "$<TARGET_FILE:${test}> ${filter}\n")
    list(APPEND label again)
  endif()
  if(ARG_SERIAL)
    set(ARG_SERIAL SERIAL)
  else()
    set(ARG_SERIAL)
  endif()
  lockstep_register_test(${entry} COMMAND ${ARG_COMMAND} NEEDS ${ARG_NEEDS}
                         LABELS ${label} TIMEOUT ${ARG_TIMEOUT} ${ARG_SERIAL})
endfunction()

# A defect that users found: regression.NUMBER.NAME, label `regressions`.
function(lockstep_regression number name)
  if(number LESS 10)
    set(number "0${number}")
  endif()
  lockstep_register_again(regression.${number}.${name} regressions ${ARGN})
endfunction()

# A complaint about another project that Lockstep solves (docs/fault-catalogue.md):
# catalogue.NAME, label `catalogue`.
function(lockstep_complaint name)
  lockstep_register_again(catalogue.${name} catalogue ${ARGN})
endfunction()

# A mistake that is injected, and that a test of fakes notices: mistake.RULE.NAME,
# label `gpu-fake`. RULE: the rule that it breaks (docs/fake-gpus.md).
function(lockstep_mistake rule name)
  lockstep_register_again(mistake.${rule}.${name} gpu-fake ${ARGN})
endfunction()

# Several that are cases of one parameterised test: each "RULE NAME Case".
function(lockstep_mistakes test cases)
  foreach(mistake IN LISTS ARGN)
    string(REPLACE " " ";" mistake "${mistake}")
    list(POP_FRONT mistake rule name case)
    lockstep_mistake(${rule} ${name} CASES ${test} "${cases}/${case}")
  endforeach()
endfunction()

# Writes the targets that each test needs: lines "ENTRY TARGET ...", no line if
# it needs everything. Registers the check of what is registered again.
function(lockstep_list_test_targets)
  get_property(cases GLOBAL PROPERTY LOCKSTEP_CASES)
  if(cases)
    set(list "${PROJECT_BINARY_DIR}/cases.txt")
    file(GENERATE OUTPUT "${list}" CONTENT "${cases}")
    lockstep_register_test(cases_registered_again
      COMMAND ${LOCKSTEP_PYTHON} "${PROJECT_SOURCE_DIR}/tests/regressions/run_cases.py" --check "${list}"
      LABELS regressions)
  endif()
  get_property(lines GLOBAL PROPERTY LOCKSTEP_TEST_TARGETS)
  file(WRITE "${PROJECT_BINARY_DIR}/test_targets.txt" "${lines}")
endfunction()

# Classes of .proto files and their gRPC services. Paths are relative to proto/
# of the repository root, so an import reads "lockstep/v1/x.proto".
function(lockstep_proto name)
  cmake_parse_arguments(ARG "" "" "PROTOS" ${ARGN})
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED CONFIG)
  set(out "${CMAKE_CURRENT_BINARY_DIR}")
  set(generated)
  foreach(proto ${ARG_PROTOS})
    set(source "${CMAKE_CURRENT_SOURCE_DIR}/${proto}")
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(files "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(stubs)
    file(STRINGS "${source}" services REGEX "^service ")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    if(services)
      list(APPEND files "${out}/${stem}.grpc.pb.cc" "${out}/${stem}.grpc.pb.h")
      set(stubs --grpc_out=${out} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(
      OUTPUT ${files}
      COMMAND protobuf::protoc --proto_path=${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${out} ${stubs}
              ${proto}
      DEPENDS "${source}"
      VERBATIM)
    list(APPEND generated ${files})
  endforeach()
  add_library(${name} STATIC ${generated})
  target_include_directories(${name} SYSTEM PUBLIC "${out}")
  target_link_libraries(${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  # Third-party code: not checked; under a sanitizer it compiles 2.5 times as
  # long.
  if(LOCKSTEP_PRESET MATCHES "^(asan|fuzz)$")
    target_compile_options(${name} PRIVATE -fno-sanitize=all)
  endif()
endfunction()
