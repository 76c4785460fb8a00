# Whether the GPU parts are built, by the option LOCKSTEP_CUDA:
#
#   TOOLKIT  if there is a CUDA toolkit (nvcc); the default
#   DRIVER   if there is also an NVIDIA driver: the preset `user`, whose kernels
#            are for this machine
#   ON       always: without the toolkit the configuration fails
#   OFF      never
#
# Prints one line with the decision; LOCKSTEP_HAS_CUDA is true if they are
# built. LOCKSTEP_CUDA_RUNTIME is the runtime to link if it and NCCL's header
# exist; LOCKSTEP_DEVICE_LIBRARIES are then the client's libraries of device
# code. Sanitizer presets have neither.
#
#   lockstep_kernel(NAME  SOURCES a.cu ...  DEPS ...)  device code for Ampere
#                                                      and Hopper, later: PTX
#   lockstep_gpu_programs(NAME ...)                    adds programs to
#                                                      ./run gpu-bundle
#   lockstep_gpu_demo(NAME ...)                        adds its demonstration
#
# Products and sums are rounded separately, as on the host: no fused
# multiply-add.

include_guard(GLOBAL)

set(LOCKSTEP_CUDA TOOLKIT CACHE STRING "When the GPU parts are built: TOOLKIT, DRIVER, ON, OFF")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS TOOLKIT DRIVER ON OFF)
if(NOT LOCKSTEP_CUDA MATCHES "^(TOOLKIT|DRIVER|ON|OFF)$")
  message(FATAL_ERROR "LOCKSTEP_CUDA is '${LOCKSTEP_CUDA}': it takes TOOLKIT, DRIVER, ON or OFF")
endif()

# The driver's device node, or the one of WSL.
set(LOCKSTEP_HAS_DRIVER OFF)
if(EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
  set(LOCKSTEP_HAS_DRIVER ON)
endif()

set(LOCKSTEP_HAS_CUDA OFF)
if(LOCKSTEP_TOOLS AND NOT LOCKSTEP_CUDA STREQUAL "OFF")
  find_program(LOCKSTEP_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
  if(LOCKSTEP_NVCC AND LOCKSTEP_CUDA STREQUAL "DRIVER" AND NOT LOCKSTEP_HAS_DRIVER)
    message(NOTICE "CUDA: GPU parts are not built: no driver on this machine; -DLOCKSTEP_CUDA=ON builds them")
  elseif(LOCKSTEP_NVCC)
    set(LOCKSTEP_HAS_CUDA ON)
    message(NOTICE "CUDA found: ${LOCKSTEP_NVCC}")
    get_filename_component(cuda_root "${LOCKSTEP_NVCC}" REALPATH)
    get_filename_component(cuda_root "${cuda_root}/../.." ABSOLUTE)
    find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime_api.h HINTS "${cuda_root}/include")
    find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS "${cuda_root}/include")
    find_library(LOCKSTEP_CUDART cudart_static
      HINTS "${cuda_root}/lib64" "${cuda_root}/lib" "${cuda_root}/targets/x86_64-linux/lib")
    if(LOCKSTEP_CUDA_INCLUDE AND LOCKSTEP_NCCL_INCLUDE AND LOCKSTEP_CUDART)
      set(LOCKSTEP_CUDA_RUNTIME "${LOCKSTEP_CUDART}")
      set(LOCKSTEP_DEVICE_LIBRARIES lockstep_device_kernels)
    endif()
  elseif(LOCKSTEP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LOCKSTEP_CUDA is ON, and there is no nvcc in CUDA_HOME, CUDA_PATH, /usr/local/cuda or PATH")
  else()
    message(NOTICE "CUDA not found: GPU parts are not built")
  endif()
endif()

if(LOCKSTEP_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER "${LOCKSTEP_NVCC}")
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # CMake 3.25 does not know this option of nvcc 13.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  # Compresses device code to a sixth of its size: ./run gpu-bundle has it many
  # times.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.9)
    set(LOCKSTEP_CUDA_COMPRESS $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
endif()

function(lockstep_kernel name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
    ${LOCKSTEP_CUDA_COMPRESS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} "${LOCKSTEP_CUDART}" ${CMAKE_DL_LIBS} rt)
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} SYSTEM PUBLIC "${LOCKSTEP_CUDA_INCLUDE}")
endfunction()

# The programs use the libstdc++ of the machine they run on: the bundled
# libraries need it anyway, and a static one would need a newer libc.
function(lockstep_gpu_programs)
  foreach(name IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_GPU_PROGRAMS "$<TARGET_FILE:${name}>")
  endforeach()
endfunction()

function(lockstep_gpu_demo)
  foreach(name IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_GPU_DEMO "$<TARGET_FILE:${name}>")
  endforeach()
endfunction()

# Called last in the top CMakeLists.txt: writes their paths, one per line, for
# ./run gpu-bundle.
function(lockstep_list_gpu_programs)
  foreach(kind PROGRAMS DEMO)
    get_property(programs GLOBAL PROPERTY LOCKSTEP_GPU_${kind})
    list(JOIN programs "\n" lines)
    if(programs)
      string(TOLOWER "gpu_${kind}.txt" file)
      file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/${file}" CONTENT "${lines}\n")
    endif()
  endforeach()
endfunction()
