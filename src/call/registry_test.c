#include "call/registry.h"

#include "base/scope.h"
#include "testing/testing.h"

#include <string.h>

static gw_value nothing(gw_scope *s, const gw_args *a) {
    (void)s;
    (void)a;
    return gw_none();
}

static gw_value no_method(gw_scope *s, void *self, const gw_args *a) {
    (void)s;
    (void)self;
    (void)a;
    return gw_none();
}

static void open_nothing(gw_scope *own, void *self, const gw_args *a) {
    (void)own;
    (void)self;
    (void)a;
}

static const gw_class_options class_options = { .size = 8, .open = open_nothing };

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void it_finds_registered_functions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_registry *r = gw_registry_open(s);
    gw_registry_add_function(s, r, "f", GW_INLINE, "int", nothing);
    gw_registry_add_class(s, r, "c", class_options);
    gw_registry_add_method(s, r, "c", "m", GW_POOL, NULL, no_method);
    assert_true(gw_ok(s));
    assert_ptr_equal(registry_find(r, "f")->body, nothing);
    assert_null(registry_find(r, "m"));
    const function *c = registry_find(r, "c");
    assert_ptr_equal(class_find_method(c->class, "m")->method, no_method);
    assert_null(class_find_method(c->class, "f"));
    assert_int_equal(gw_exit_code(gw_scope_close(s)), 0);
}

static void it_finds_operators_by_their_wire_name(void **state) {
    (void)state;
    assert_ptr_equal(registry_find_operator("gw.add"), op_find("add"));
    assert_null(registry_find_operator("add"));
    assert_null(registry_find_operator("gw."));
    assert_null(registry_find_operator("gw.nothing"));
}

static void it_refuses_invalid_functions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_registry *r = gw_registry_open(s);
    gw_registry_add_function(s, r, "f", GW_INLINE, NULL, nothing);
    gw_registry_add_function(s, r, "f", GW_POOL, NULL, nothing);
    expect(s, GW_DUPLICATE, "f is registered twice");
    gw_registry_add_class(s, r, "f", class_options);
    expect(s, GW_DUPLICATE, "f is registered twice");
    gw_registry_add_function(s, r, "two words", GW_POOL, NULL, nothing);
    expect(s, GW_INVALID, "\"two words\" is not a name: 1 to 127 of A-Z a-z 0-9 _ : . -");
    gw_registry_add_function(s, r, "gw.mine", GW_POOL, NULL, nothing);
    expect(s, GW_INVALID, "\"gw.mine\": names that begin with gw. belong to the library");
    gw_registry_add_function(s, r, "g", (gw_placement)0, NULL, nothing);
    expect(s, GW_INVALID, "g is neither GW_INLINE nor GW_POOL");
    gw_registry_add_function(s, r, "g", GW_INLINE, "int, colour", nothing);
    expect(s, GW_INVALID, "g: \"colour\" in its signature is not a kind of value");
    gw_registry_add_method(s, r, "f", "m", GW_INLINE, NULL, no_method);
    expect(s, GW_NOT_FOUND, "method m: no class f is registered");
    gw_registry_add_class(s, r, "c", (gw_class_options){ .size = 8 });
    expect(s, GW_INVALID, "class c: .open is NULL");
    gw_registry_add_class(s, r, "c", class_options);
    gw_registry_add_method(s, r, "c", "m", GW_INLINE, NULL, no_method);
    gw_registry_add_method(s, r, "c", "m", GW_INLINE, NULL, no_method);
    expect(s, GW_DUPLICATE, "c.m is registered twice");
    r->frozen = true;
    gw_registry_add_function(s, r, "late", GW_INLINE, NULL, nothing);
    expect(s, GW_WRONG_STATE, "the registry is in use by an agent, and can no longer change");
    assert_int_equal(gw_exit_code(gw_scope_close(s)), 0);
}

static void fill(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_registry *r = gw_registry_open(s);
    gw_registry_add_function(s, r, "f", GW_INLINE, "int, any, ...", nothing);
    gw_registry_add_class(s, r, "c", class_options);
    gw_registry_add_method(s, r, "c", "m", GW_POOL, "float?", no_method);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    if (!registry_open_process(&r, &ignored)) handle_release(r);
}

static void it_survives_failing_allocations(void **state) {
    (void)state;
    testing_alloc_failure_loop(fill, NULL);
}

GW_TESTS(call_registry, it_finds_registered_functions, it_finds_operators_by_their_wire_name,
         it_refuses_invalid_functions, it_survives_failing_allocations);
