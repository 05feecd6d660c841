# Headers, both forms of the library, gradwire.pc and a CMake package, all relocatable: `cmake --install build --prefix`
# may name a folder that was not given when configuring.
include(CMakePackageConfigHelpers)

set_target_properties(gradwire-shared PROPERTIES EXPORT_NAME gradwire)
set_target_properties(gradwire-static PROPERTIES EXPORT_NAME gradwire_static)
install(TARGETS gradwire-shared gradwire-static EXPORT gradwire-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
if(TARGET gradwire-tool)
    install(TARGETS gradwire-tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES docs/man/gradwire.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# The pages that `make docs` has made.
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/html DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradwire)
install(EXPORT gradwire-targets NAMESPACE gradwire:: DESTINATION ${package_dir})
configure_package_config_file(cmake/gradwire-config.cmake.in gradwire-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(gradwire-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradwire-config.cmake ${PROJECT_BINARY_DIR}/gradwire-config-version.cmake
        DESTINATION ${package_dir})

# The installed targets: `make lib`.
add_custom_target(gradwire-installed DEPENDS gradwire-shared gradwire-static)
if(TARGET gradwire-tool)
    add_dependencies(gradwire-installed gradwire-tool)
endif()

# gradwire.pc finds its prefix relative to itself.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/gradwire.pc.in gradwire.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradwire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
