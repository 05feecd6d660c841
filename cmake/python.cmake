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

# The backend of torch.distributed.rpc, where PyTorch is installed with its headers: `make python-torch`. The file of the
# module names the version of PyTorch, whose interface for agents is not stable.
option(GW_PYTHON_TORCH "the backend of torch.distributed.rpc, where PyTorch is installed" ON)
if(GW_PYTHON_TORCH)
    execute_process(COMMAND ${PYTHON_PROGRAM} ${CMAKE_CURRENT_LIST_DIR}/find_torch.py OUTPUT_VARIABLE torch
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT torch OR NOT CMAKE_CXX_COMPILER)
    return()
endif()
list(GET torch 0 torch_version)
list(GET torch 1 torch_suffix)
list(GET torch 2 torch_libraries)
list(SUBLIST torch 3 -1 torch_includes)
file(MAKE_DIRECTORY ${python_folder}/torch)
file(GLOB torch_files CONFIGURE_DEPENDS python/gradwire/torch/*.py)
foreach(file IN LISTS torch_files)
    cmake_path(GET file FILENAME name)
    file(CREATE_LINK ${file} ${python_folder}/torch/${name} SYMBOLIC)
endforeach()

file(GLOB torch_sources CONFIGURE_DEPENDS python/gradwire/torch/*.cc)
add_library(gradwire-torch MODULE EXCLUDE_FROM_ALL ${torch_sources})
set_target_properties(gradwire-torch PROPERTIES PREFIX "" OUTPUT_NAME _torch.${torch_version} SUFFIX ${torch_suffix}
    LIBRARY_OUTPUT_DIRECTORY ${python_folder}/torch CXX_STANDARD 17 CXX_VISIBILITY_PRESET hidden)
target_include_directories(gradwire-torch PRIVATE python/gradwire)
target_include_directories(gradwire-torch SYSTEM PRIVATE ${python_include} ${torch_includes})
target_compile_options(gradwire-torch PRIVATE -Wall -Wextra -O2)
target_link_directories(gradwire-torch PRIVATE ${torch_libraries})
target_link_libraries(gradwire-torch PRIVATE gradwire-shared torch_python torch torch_cpu c10)
add_dependencies(gradwire-torch gradwire-python)
if(TARGET gradwire-tests)
    set_property(SOURCE tests/python/python_torch_test.c APPEND PROPERTY COMPILE_DEFINITIONS
        GW_PYTHON="${PYTHON_PROGRAM}" GW_TORCH_MODULE="${python_folder}/torch/_torch.${torch_version}${torch_suffix}")
endif()
