# The Python module gradwire, where Python is installed with its headers: build/python/gradwire has links to the sources in
# python/gradwire and the extension module _core.abi3.so, for PYTHONPATH=build/python.
option(GW_PYTHON "the Python module, where Python 3.11 or later is installed" ON)
find_program(PYTHON_PROGRAM python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(PYTHON_PROGRAM python3)
if(GW_PYTHON AND PYTHON_PROGRAM)
    execute_process(COMMAND ${PYTHON_PROGRAM} -c
        "import sys, sysconfig; print(sys.version_info >= (3, 11), sysconfig.get_paths()['include'], sep=';')"
        OUTPUT_VARIABLE python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(python)
        list(GET python 0 python_is_new)
        list(GET python 1 python_include)
    endif()
endif()
if(NOT python_is_new STREQUAL "True" OR NOT EXISTS "${python_include}/Python.h" OR GW_SANITIZE)
    return()
endif()

set(python_folder ${PROJECT_BINARY_DIR}/python/gradwire)
file(MAKE_DIRECTORY ${python_folder})
file(GLOB python_files CONFIGURE_DEPENDS python/gradwire/*.py python/gradwire/*.pyi python/gradwire/py.typed)
foreach(file IN LISTS python_files)
    cmake_path(GET file FILENAME name)
    file(CREATE_LINK ${file} ${python_folder}/${name} SYMBOLIC)
endforeach()

file(GLOB python_sources CONFIGURE_DEPENDS python/gradwire/core/*.c)
add_library(gradwire-python MODULE ${python_sources})
set_target_properties(gradwire-python PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so
    LIBRARY_OUTPUT_DIRECTORY ${python_folder})
target_include_directories(gradwire-python SYSTEM PRIVATE ${python_include})
target_link_libraries(gradwire-python PRIVATE gradwire-shared gradwire-flags)
if(TARGET gradwire-tests)
    add_dependencies(gradwire-tests gradwire-python)
    set_property(SOURCE tests/python/python_test.c APPEND PROPERTY COMPILE_DEFINITIONS
        GW_PYTHON="${PYTHON_PROGRAM}")
endif()
