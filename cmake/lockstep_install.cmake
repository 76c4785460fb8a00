# The installation by `cmake --install build/user --prefix P`, and the client
# library.
#
#   bin/        lockstepd, lockstepctl, lockstep-perf
#   lib/        liblockstep_client.so, liblockstep_client.a
#   include/    lockstep/*.h
#   lib/cmake/  lockstep: find_package(lockstep) with lockstep::client (shared), and
#               lockstep::client_static with COMPONENTS static
#
# Targets that are not built yet are built by the installation.
#
# Each file has a component, of which cmake/lockstep_packages.cmake makes a Debian
# package: daemon, library, development, tools.
#
#   lockstep_client_library(LIBRARIES lockstep_base lockstep_plan ...
#                           STATIC_PACKAGES gRPC ...)
#
# makes both libraries from the objects of the listed libraries. The list must
# be complete: a missing Lockstep library that a listed one needs is an error
# here rather than an undefined symbol in a consumer's build. Third-party
# dependencies are private to the shared library; the static one passes them on,
# and its consumers find them by STATIC_PACKAGES.

include_guard(GLOBAL)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Third-party packages of the public headers, which every consumer includes.
set(LOCKSTEP_PUBLIC_DEPS absl::any_invocable absl::function_ref absl::span absl::status
    absl::statusor absl::time)

function(lockstep_client_library)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;STATIC_PACKAGES" ${ARGN})
  set(objects)
  foreach(library ${ARG_LIBRARIES})
    get_target_property(type ${library} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:${library}>)
    endif()
  endforeach()
  _lockstep_needs_of_others(needs "${ARG_LIBRARIES}")
  set(symbols "${PROJECT_SOURCE_DIR}/cmake/lockstep_client.map")

  add_library(lockstep_client SHARED ${objects})
  target_link_libraries(lockstep_client PUBLIC ${LOCKSTEP_PUBLIC_DEPS} PRIVATE ${needs})
  target_link_options(lockstep_client PRIVATE
    "-Wl,--version-script=${symbols}" -Wl,--no-undefined -Wl,--as-needed)
  set_target_properties(lockstep_client PROPERTIES
    EXPORT_NAME client LINKER_LANGUAGE CXX LINK_DEPENDS "${symbols}"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

  add_library(lockstep_client_static STATIC ${objects})
  target_link_libraries(lockstep_client_static PUBLIC ${LOCKSTEP_PUBLIC_DEPS} ${needs})
  set_target_properties(lockstep_client_static PROPERTIES
    EXPORT_NAME client_static LINKER_LANGUAGE CXX OUTPUT_NAME lockstep_client)

  foreach(library lockstep_client lockstep_client_static)
    target_compile_features(${library} PUBLIC cxx_std_20)
    target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:include>)
    set_target_properties(${library} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
      ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  endforeach()
  set(LOCKSTEP_STATIC_PACKAGES ${ARG_STATIC_PACKAGES})
  _lockstep_install_client()
endfunction()

# Builds the targets of a component's install rules that follow if a file is missing.
function(_lockstep_build_before_install component)
  set(files)
  foreach(target ${ARGN})
    list(APPEND files "$<TARGET_FILE:${target}>")
  endforeach()
  list(JOIN ARGN " " targets)
  install(CODE "
    foreach(file IN ITEMS ${files})
      if(NOT EXISTS \"\${file}\")
        message(STATUS \"Building ${targets}\")
        execute_process(COMMAND_ERROR_IS_FATAL ANY
          COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target ${targets})
        break()
      endif()
    endforeach()" COMPONENT ${component})
endfunction()

function(_lockstep_install_client)
  _lockstep_build_before_install(library lockstep_client)
  _lockstep_build_before_install(development lockstep_client_static)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
  install(TARGETS lockstep_client EXPORT lockstepTargets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development)
  install(TARGETS lockstep_client_static EXPORT lockstepStaticTargets ARCHIVE COMPONENT development)
  foreach(export lockstepTargets lockstepStaticTargets)
    install(EXPORT ${export} NAMESPACE lockstep:: DESTINATION "${package_dir}" COMPONENT development)
  endforeach()
  # No public function returns a communicator: its header is internal.
  install(DIRECTORY client/include/ TYPE INCLUDE COMPONENT development
    FILES_MATCHING PATTERN "*.h" PATTERN "communicator.h" EXCLUDE)

  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/lockstepConfig.cmake" INSTALL_DESTINATION "${package_dir}")
  write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/lockstepConfig.cmake"
    "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake" DESTINATION "${package_dir}"
    COMPONENT development)
endfunction()

# lockstep_install_programs(COMPONENT NAME ...)
function(lockstep_install_programs component)
  foreach(program ${ARGN})
    if(TARGET ${program})
      _lockstep_build_before_install(${component} ${program})
      install(TARGETS ${program} RUNTIME COMPONENT ${component})
    endif()
  endforeach()
endfunction()

# Walks the link dependencies of the libraries. A Lockstep library must be
# listed, or be a header-only target, which is walked through; third-party ones
# are added to `out`.
function(_lockstep_needs_of_others out libraries)
  set(needs)
  set(todo ${libraries})
  set(seen)
  while(todo)
    list(POP_FRONT todo library)
    if(library IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${library})
    get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
    foreach(link ${links})
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
      if(link MATCHES "^(lockstep_warnings|links-NOTFOUND)$" OR NOT link)
        continue()
      elseif(link MATCHES "TARGET_NAME_IF_EXISTS:([a-z0-9_]+)")
        set(link ${CMAKE_MATCH_1})
        if(NOT TARGET ${link})
          continue()
        endif()
      endif()
      if(NOT link MATCHES "^lockstep_")
        list(APPEND needs ${link})
        continue()
      endif()
      get_target_property(type ${link} TYPE)
      if(NOT link IN_LIST libraries AND NOT type STREQUAL "INTERFACE_LIBRARY")
        message(FATAL_ERROR "${library} needs ${link}, which is not among the client's libraries: ${libraries}")
      endif()
      list(APPEND todo ${link})
    endforeach()
  endwhile()
  list(REMOVE_ITEM needs ${LOCKSTEP_PUBLIC_DEPS})
  list(REMOVE_DUPLICATES needs)
  set(${out} ${needs} PARENT_SCOPE)
endfunction()
