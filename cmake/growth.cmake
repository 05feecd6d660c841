# The library once more, with a call at each of its basic blocks, for a program that counts executed blocks for twice
# the input (tests/growth). Not optimised: it is built in a fifth of the time.
add_library(gradwire-counted-objects OBJECT ${library_sources})
target_include_directories(gradwire-counted-objects PRIVATE include src)
target_link_libraries(gradwire-counted-objects PRIVATE gradwire-flags)
target_compile_options(gradwire-counted-objects PRIVATE -O0 -g0 -fsanitize-coverage=trace-pc)

file(GLOB growth_sources CONFIGURE_DEPENDS tests/growth/*.c)
gradwire_program(gradwire-growth gradwire-growth ${growth_sources} $<TARGET_OBJECTS:gradwire-counted-objects>)
target_link_libraries(gradwire-growth PRIVATE gradwire-testing)
add_dependencies(gradwire-tests gradwire-growth)
