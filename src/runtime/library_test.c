// The built-in functions of every worker.
#include "call/registry.h"
#include "runtime/runtime.h"
#include "testing/testing.h"

static const function *find(const char *name) {
    return library_find(runtime_services, name);
}

static void it_finds_functions_and_classes_by_name(void **state) {
    (void)state;
    static const char *const functions[] = { "gw.barrier", "gw.marks", "gw.grad_scale" };
    static const char *const classes[] = { "gw.optimizer", "gw.nn.linear", "gw.nn.sequential" };
    for (int i = 0; i < 3; i++) {
        assert_string_equal(find(functions[i])->name, functions[i]);
        assert_non_null(find(functions[i])->body);
        assert_non_null(find(classes[i])->class);
        assert_string_equal(find(classes[i])->class->name, classes[i]);
    }
}

static void it_has_nothing_else(void **state) {
    (void)state;
    assert_null(find(""));
    assert_null(find("gw."));
    assert_null(find("gw.nn"));
    assert_null(find("gw.marks2"));
    assert_null(find("marks"));
    assert_null(find("gw.add"));  // operators are in their own table
}

static void it_checks_their_arguments(void **state) {
    (void)state;
    const signature *s = &find("gw.grad_scale")->signature;
    gw_value good[] = { { .kind = GW_LIST }, { .kind = GW_INT } }, bad = { .kind = GW_INT };
    gw_error error;
    assert_int_equal(signature_check(s, 2, good, &error), GW_OK);
    assert_int_equal(signature_check(s, 1, good, &error), GW_INVALID);
    assert_int_equal(signature_check(s, 1, &bad, &error), GW_INVALID);
    const class *c = find("gw.optimizer")->class;
    assert_int_equal(signature_check(&class_find_method(c, "state")->signature, 0, NULL, &error),
                     GW_OK);
    assert_int_equal(signature_check(&class_find_method(c, "state")->signature, 1, good, &error),
                     GW_INVALID);
}

GW_TESTS(runtime_library, it_finds_functions_and_classes_by_name, it_has_nothing_else,
         it_checks_their_arguments);
