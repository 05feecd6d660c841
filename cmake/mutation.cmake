# A second form of the rooms whose protocols have rules to leave out and points to halt at (src/base/mutation.h,
# src/base/failpoint.h). Programs that have it take everything else from the internal archive: of the two forms of a
# room the linker uses the one that it finds first.
file(GLOB mutation_sources CONFIGURE_DEPENDS src/wire/*.c src/net/shm/*.c src/net/tls/*.c src/net/handshake.c src/net/connection.c src/session/*.c src/store/*.c
    src/membership/*.c src/agent/*.c src/agent/*/*.c src/future/*.c src/lend/*.c src/call/*.c src/collective/*.c src/collective/*/*.c src/reference/*.c
    src/distributed/*/*.c src/checkpoint/*.c src/parallel/*.c src/parallel/*/*.c src/runtime/*.c src/elastic/*.c src/tensor/arena.c src/tensor/pool.c src/trace/*.c)
list(FILTER mutation_sources EXCLUDE REGEX "_(test|fuzz)\\.c$")
list(APPEND mutation_sources src/base/mutation.c src/base/failpoint.c)

add_library(gradwire-mutation-objects OBJECT ${mutation_sources})
target_include_directories(gradwire-mutation-objects PRIVATE include src)
target_link_libraries(gradwire-mutation-objects PRIVATE gradwire-flags)
target_compile_definitions(gradwire-mutation-objects PRIVATE GW_MUTATIONS)

# A worker that halts at a chosen point, for tests to kill it there.
gradwire_program(gradwire-kill-worker gradwire-kill-worker tests/programs/kill_worker.c
    tests/programs/kill_trains.c
    $<TARGET_OBJECTS:gradwire-mutation-objects>)
# A case of tests/cases that can have the bugs of LEND-16.
gradwire_program(gradwire-two-threads-worker gradwire-two-threads-worker tests/cases/all_reduce_two_threads.c
    $<TARGET_OBJECTS:gradwire-mutation-objects>)
# A worker that writes a checkpoint, for tests to kill it there.
gradwire_program(gradwire-checkpoint-worker gradwire-checkpoint-worker tests/programs/checkpoint_worker.c
    $<TARGET_OBJECTS:gradwire-mutation-objects>)
# A worker without work, started in large numbers.
gradwire_program(gradwire-scale-worker gradwire-scale-worker tests/programs/scale_worker.c)
gradwire_program(gradwire-mpi-worker gradwire-mpi-worker tests/programs/mpi_worker.c)

# The simulated tests over the mutation form.
file(GLOB mutation_test_sources CONFIGURE_DEPENDS tests/sim/*_sim_test.c tests/sim/jobs*.c tests/sim/passes*.c tests/sim/group_walk.c
    tests/sim/steps*.c tests/sim/ref_random_test.c tests/sim/rpc_cancel_test.c tests/sim/ref_fault_test.c
    src/net/shm/ring_sim_test.c src/net/handshake_test.c src/net/tls/tls*_test.c src/session/*_test.c src/store/*_test.c src/membership/*_test.c src/agent/members/members_test.c
    src/collective/plan/plan_test.c src/elastic/elastic_test.c src/testing/sim_faults_test.c src/trace/*_test.c)
# And those of traces.
set(mutation_trace_sources tests/launcher/trace_timeline_test.c tests/launcher/trace_clocks_test.c tests/support/images.c
    tests/support/launched.c tests/support/trace_lines.c ${observe_sources})
# And those of the decisions of host 0.
set(mutation_host_sources tests/launcher/run_dynamic_test.c tests/launcher/run_coordinator_test.c
    tests/launcher/run_budget_test.c)
gradwire_program(gradwire-mutations gradwire-mutations ${mutation_host_sources} ${mutation_test_sources} ${mutation_trace_sources} ${cartpole_sources}
    tests/sim/cartpole_play.c $<TARGET_OBJECTS:gradwire-mutation-objects>)
target_include_directories(gradwire-mutations PRIVATE tools/gradwire)
target_link_libraries(gradwire-mutations PRIVATE gradwire-testing)
target_compile_definitions(gradwire-mutations PRIVATE GW_MUTATIONS
    GW_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GW_BUILD_DIR="${PROJECT_BINARY_DIR}")

add_dependencies(gradwire-tests gradwire-mutations gradwire-kill-worker gradwire-checkpoint-worker gradwire-two-threads-worker
    gradwire-scale-worker gradwire-mpi-worker)
