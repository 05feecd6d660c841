# The harness (src/testing/), every room's *_test.c and the tests across rooms (tests/) make one binary.
find_path(CMOCKA_INCLUDE cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
if(NOT CMOCKA_INCLUDE OR NOT CMOCKA_LIBRARY)
    message(STATUS "cmocka is not installed: the tests are left out (`make test` installs it)")
    return()
endif()

file(GLOB testing_sources CONFIGURE_DEPENDS src/testing/*.c)
file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS src/*_test.c tests/*.c)
list(FILTER test_sources EXCLUDE REGEX "/tests/(programs|cases|growth)/")
list(FILTER testing_sources EXCLUDE REGEX "_test\\.c$")
if(GW_SANITIZE STREQUAL "fuzz")
    list(FILTER testing_sources EXCLUDE REGEX "/main\\.c$")  # libFuzzer has its own
endif()
if(GW_SANITIZE)
    # Habits check the sources and are the same in every build; steps are counted in a separate build.
    list(FILTER test_sources EXCLUDE REGEX "/(habits|growth)_test\\.c$")
endif()

add_library(gradwire-testing OBJECT ${testing_sources})
target_include_directories(gradwire-testing PUBLIC include src ${CMOCKA_INCLUDE})
target_link_libraries(gradwire-testing PUBLIC gradwire-flags ${CMOCKA_LIBRARY})
# Stacks show every call, last calls included.
target_compile_options(gradwire-testing PUBLIC -fno-optimize-sibling-calls)

if(GW_SANITIZE STREQUAL "fuzz")
    include(cmake/fuzz.cmake)
    return()
endif()

# The target gradwire-tests is this program and the programs that its tests start; most tests start none
# (scripts/build-tests).
gradwire_program(gradwire-tests-alone gradwire-tests ${test_sources} ${cartpole_sources} ${text_sources}
    ${observe_sources} ${monitor_sources})
target_link_libraries(gradwire-tests-alone PRIVATE gradwire-testing)
target_include_directories(gradwire-tests-alone PRIVATE tools/gradwire)  # run_policy_test.c
target_compile_definitions(gradwire-tests-alone PRIVATE
    GW_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GW_BUILD_DIR="${PROJECT_BINARY_DIR}")

add_custom_target(gradwire-tests DEPENDS gradwire-tests-alone)

# A small program of tests that fail in every way, to test the harness with.
gradwire_program(gradwire-testing-fixture gradwire-testing-fixture src/testing/fixture/failures.c)
target_link_libraries(gradwire-testing-fixture PRIVATE gradwire-testing)
add_dependencies(gradwire-tests gradwire-testing-fixture)

# Small programs that must end without error, one per file of tests/cases/. Like users, they include only include/;
# tests start each of them as build/bin/case-NAME.
file(GLOB cases CONFIGURE_DEPENDS tests/cases/*.c)
foreach(file IN LISTS cases)
    cmake_path(GET file STEM name)
    add_executable(case-${name} ${file})
    target_link_libraries(case-${name} PRIVATE gradwire-static gradwire-flags)
    add_dependencies(gradwire-tests case-${name})
endforeach()

include(cmake/fuzz.cmake)
