// The tests of the backend of torch.distributed.rpc: those of python/tests/test_torch.py in groups, and some of
// PyTorch's own. `make python-torch` builds the backend; without it, they are skipped.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef GW_PYTHON
#define GW_PYTHON ""
#endif
#ifndef GW_TORCH_MODULE
#define GW_TORCH_MODULE ""
#endif

static void need_backend(void) {
    if (!*GW_TORCH_MODULE || access(GW_TORCH_MODULE, R_OK) != 0)
        testing_skip("the backend of PyTorch is not built (make python-torch)");
    if (system(GW_PYTHON " -c 'import numpy, pytest, torch' 2>/dev/null"))
        testing_skip("PyTorch, numpy or pytest is not installed");
}

static void run_program(const char *arguments) {
    char command[1024];
    need_backend();
    snprintf(command, sizeof command,
             "cd %s/python/tests && GW_BUILD_DIR=%s PYTHONPATH=%s/python "
             "PYTHONDONTWRITEBYTECODE=1 " GW_PYTHON " %s 2>&1",
             GW_SOURCE_DIR, GW_BUILD_DIR, GW_BUILD_DIR, arguments);
    assert_int_equal(system(command), 0);
}

// The tests of test_torch.py whose names contain a word of |words|, "ends or ctrl_c".
static void run(const char *words) {
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "-m pytest -q -x -p no:cacheprovider -k '%s' test_torch.py", words);
    run_program(arguments);
}

static void the_backend_is_registered_next_to_tensorpipe(void **state) {
    (void)state;
    run("enumeration or options or unchanged or another_version");
}

static void messages_carry_tensors_and_malformed_ones_fail_alone(void **state) {
    (void)state;
    run("messages or metrics or threads");
}

static void workers_join_through_the_store_of_torch(void **state) {
    (void)state;
    run("agent or agree or store or several_hosts or refused_with or named");
}

static void uses_of_lost_workers_fail(void **state) {
    (void)state;
    run("lost_worker or killed_worker");
}

static void workers_end_cleanly_in_all_ways(void **state) {
    (void)state;
    run("to_end or ctrl_c");
}

static void chosen_tests_of_pytorch_pass(void **state) {
    (void)state;
    run_program("torch_table.py --chosen --backends Gradwire");
}

static void the_tutorial_learns_in_both_backends(void **state) {
    (void)state;
    run_program("-m pytest -q -x -p no:cacheprovider test_torch_examples.py");
}

GW_TESTS_WITH_LIMIT(python_torch, 240, the_backend_is_registered_next_to_tensorpipe,
                    messages_carry_tensors_and_malformed_ones_fail_alone,
                    workers_join_through_the_store_of_torch, uses_of_lost_workers_fail,
                    workers_end_cleanly_in_all_ways, chosen_tests_of_pytorch_pass,
                    the_tutorial_learns_in_both_backends);
