# Is the CUDA toolkit here? One line says so; LOCKSTEP_CUDA is then true and the
# GPU parts are built. Sanitizer presets leave them out.
#
#   lockstep_kernel(NAME  SOURCES a.cu ...  DEPS ...)  device code for Ampere and
#                                                      Hopper, and PTX for later
#
# Products and sums are rounded one by one, as on the host: no fused
# multiply-add.

include_guard(GLOBAL)

set(LOCKSTEP_CUDA OFF)
if(LOCKSTEP_TOOLS)
  find_program(LOCKSTEP_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
  if(LOCKSTEP_NVCC)
    set(LOCKSTEP_CUDA ON)
    message(NOTICE "CUDA found: ${LOCKSTEP_NVCC}")
  else()
    message(NOTICE "CUDA not found: GPU parts are not built")
  endif()
endif()

if(LOCKSTEP_CUDA)
  set(CMAKE_CUDA_COMPILER "${LOCKSTEP_NVCC}")
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # CMake 3.25 does not know it of nvcc 13.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  find_package(CUDAToolkit REQUIRED)
endif()

function(lockstep_kernel name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} CUDA::cudart_static)
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
endfunction()
