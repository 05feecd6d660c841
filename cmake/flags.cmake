# Flags for all of our own code, as the target gradwire-flags. Users of the library never see them.
set(GW_SANITIZE "" CACHE STRING "Build with a sanitizer: address (and undefined), thread, fuzz (libFuzzer's with address), or coverage")
set_property(CACHE GW_SANITIZE PROPERTY STRINGS "" address thread fuzz coverage)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")  # without -DNDEBUG: assertions stay on in release
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE ccache)
if(CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Only examples are in C++. A compiler that was missing last time is searched for again.
if(NOT CMAKE_CXX_COMPILER)
    unset(CMAKE_CXX_COMPILER CACHE)
endif()
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
endif()

add_library(gradwire-flags INTERFACE)
target_compile_options(gradwire-flags INTERFACE
    -Wall -Wextra -fvisibility=hidden
    -ffp-contract=off)  # a fused multiply-add rounds differently: same inputs must give the same bits everywhere
# Empty rather than 1, so that a file which defines it for itself does so without a warning.
target_compile_definitions(gradwire-flags INTERFACE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)

if(GW_SANITIZE STREQUAL "address")
    set(GW_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(GW_SANITIZE STREQUAL "thread")
    set(GW_SANITIZE_FLAGS -fsanitize=thread)
elseif(GW_SANITIZE STREQUAL "fuzz")
    set(GW_SANITIZE_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(GW_SANITIZE STREQUAL "coverage")
    set(GW_SANITIZE_FLAGS --coverage -fprofile-update=atomic)
elseif(GW_SANITIZE)
    message(FATAL_ERROR "GW_SANITIZE is address, thread, fuzz, coverage or empty, not ${GW_SANITIZE}")
endif()
if(GW_SANITIZE)
    target_compile_options(gradwire-flags INTERFACE ${GW_SANITIZE_FLAGS} -fno-omit-frame-pointer -O1)
    target_link_options(gradwire-flags INTERFACE ${GW_SANITIZE_FLAGS})
endif()
