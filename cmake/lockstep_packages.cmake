# The Debian packages, made by CPack from a build that is configured for /usr: the
# preset `package`, by ./run package.
#
#   lockstepd        the daemon, its systemd unit and its user
#   liblockstepX.Y   liblockstep_client.so.X.Y
#   liblockstep-dev  headers, static library, find_package(lockstep)
#   lockstep-tools   lockstepctl, lockstep-perf
#
# Each is a component of lockstep_install.cmake. What only packages have is excluded
# from a whole `cmake --install`. dpkg-shlibdeps finds the libraries that programs link.

include_guard(GLOBAL)

set(deploy "${PROJECT_SOURCE_DIR}/deploy")
set(library_package "liblockstep${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")

# Writes `out` with the program's path here instead of the one in the source tree.
function(_lockstep_configure_unit source out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  file(READ "${source}" text)
  set(tree "/usr/local/bin/lockstepd")
  string(REPLACE "${tree}" "${CMAKE_INSTALL_FULL_BINDIR}/lockstepd" here "${text}")
  if(here STREQUAL text)
    message(FATAL_ERROR "${source} starts no ${tree}")
  endif()
  file(CONFIGURE OUTPUT "${out}" CONTENT "${here}" @ONLY)
endfunction()

_lockstep_configure_unit("${deploy}/systemd/lockstepd.service" "${PROJECT_BINARY_DIR}/lockstepd.service")
install(FILES "${PROJECT_BINARY_DIR}/lockstepd.service" DESTINATION lib/systemd/system
  COMPONENT daemon EXCLUDE_FROM_ALL)
install(FILES "${deploy}/systemd/lockstepd.sysusers.conf" DESTINATION lib/sysusers.d RENAME lockstepd.conf
  COMPONENT daemon EXCLUDE_FROM_ALL)

# _lockstep_manual(COMPONENT PROGRAM): its page, made when it is installed.
function(_lockstep_manual component program)
  set(page "${PROJECT_BINARY_DIR}/${program}.1")
  install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY
    COMMAND sh \"${deploy}/debian/manual.sh\" \"$<TARGET_FILE:${program}>\" ${PROJECT_VERSION} OUTPUT_FILE \"${page}\")
    execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND gzip -9nf \"${page}\")"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES "${page}.gz" DESTINATION share/man/man1 COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
_lockstep_manual(daemon lockstepd)
_lockstep_manual(tools lockstepctl)
_lockstep_manual(tools lockstep-perf)

# Their time is that of the build, or SOURCE_DATE_EPOCH.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/changelog.Debian" @ONLY CONTENT
"lockstep (@PROJECT_VERSION@) unstable; urgency=medium

  * Release @PROJECT_VERSION@: changelog.gz, beside this file, has its changes.

 -- The Lockstep authors <lockstep@example.invalid>  @date@
")
configure_file("${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${PROJECT_BINARY_DIR}/changelog" COPYONLY)
execute_process(COMMAND gzip -9nkf changelog changelog.Debian WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
  COMMAND_ERROR_IS_FATAL ANY)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "The Lockstep authors <lockstep@example.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL daemon library development tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

# _lockstep_package(COMPONENT NAME SECTION SUMMARY DESCRIPTION)
macro(_lockstep_package component name section summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}")
  install(FILES "${deploy}/debian/copyright" "${PROJECT_BINARY_DIR}/changelog.gz"
    "${PROJECT_BINARY_DIR}/changelog.Debian.gz" DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

_lockstep_package(daemon lockstepd net "coordinator of distributed training jobs"
  "The daemon knows every worker of a job and hands out one verified plan. Certificates\nand tokens are needed before it is started.")
_lockstep_package(library ${library_package} libs "client library of Lockstep"
  "Keeps the workers of a distributed training job in step.")
_lockstep_package(development liblockstep-dev libdevel "client library of Lockstep (development files)"
  "Headers, CMake configuration and the static library, which needs the suggested\npackages.")
_lockstep_package(tools lockstep-tools utils "command-line tools of Lockstep"
  "lockstepctl launches and operates jobs; lockstep-perf measures collectives.")

# The daemon's user is made by systemd-sysusers.
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers")
set(CPACK_DEBIAN_DAEMON_PACKAGE_SUGGESTS lockstep-tools)
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
  "${deploy}/debian/postinst" "${deploy}/debian/prerm" "${deploy}/debian/postrm")
# abseil: the public headers include it.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION}), libabsl-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS
  "cmake, libgloo-dev, libgrpc++-dev, libhwy-dev, libprotobuf-dev, libssl-dev, libyaml-cpp-dev")

include(CPack)
