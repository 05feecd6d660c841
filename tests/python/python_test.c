// The tests of the Python module, one file of python/tests each, run by pytest where the build has the module.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef GW_PYTHON
#define GW_PYTHON ""
#endif

static void need_python(void) {
    if (!*GW_PYTHON) testing_skip("the build has no Python module (python3-dev)");
    if (system(GW_PYTHON " -c 'import numpy, pytest' 2>/dev/null"))
        testing_skip("numpy or pytest of Python is not installed");
}

static void run(const char *file) {
    char command[1024];
    need_python();
    snprintf(command, sizeof command,
             "cd %s/python/tests && GW_BUILD_DIR=%s PYTHONPATH=%s/python "
             "PYTHONDONTWRITEBYTECODE=1 " GW_PYTHON " -m pytest -q -x -p no:cacheprovider %s 2>&1",
             GW_SOURCE_DIR, GW_BUILD_DIR, GW_BUILD_DIR, file);
    assert_int_equal(system(command), 0);
}

static void calls_work_in_all_forms(void **state) {
    (void)state;
    run("test_calls.py");
}

static void errors_and_bad_input_fail_their_calls_alone(void **state) {
    (void)state;
    run("test_errors.py");
}

static void futures_chain_and_reply_later(void **state) {
    (void)state;
    run("test_futures.py");
}

static void references_are_counted(void **state) {
    (void)state;
    run("test_references.py");
}

static void arrays_and_plain_values_are_carried(void **state) {
    (void)state;
    run("test_values.py");
}

static void threads_call_at_once_and_memory_stays(void **state) {
    (void)state;
    run("test_threads.py");
}

static void workers_end_cleanly_in_all_ways(void **state) {
    (void)state;
    run("test_end.py");
}

static void pickles_are_loaded_from_members_alone(void **state) {
    (void)state;
    run("test_security.py");
}

static void collectives_work_on_arrays_and_objects(void **state) {
    (void)state;
    run("test_collectives.py");
}

static void python_and_c_workers_call_each_other(void **state) {
    (void)state;
    run("test_mixed.py");
}

static void examples_learn(void **state) {
    (void)state;
    run("test_examples.py");
}

GW_TESTS_WITH_LIMIT(python, 240, calls_work_in_all_forms,
                    errors_and_bad_input_fail_their_calls_alone, futures_chain_and_reply_later,
                    references_are_counted, arrays_and_plain_values_are_carried,
                    threads_call_at_once_and_memory_stays, workers_end_cleanly_in_all_ways,
                    pickles_are_loaded_from_members_alone, collectives_work_on_arrays_and_objects,
                    python_and_c_workers_call_each_other, examples_learn);
