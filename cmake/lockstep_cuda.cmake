# Is the CUDA toolkit here? One line says so; LOCKSTEP_CUDA is then true and the
# GPU parts are built. Sanitizer presets leave them out.

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
