#include "collective/group/scope_path.h"
#include "testing/testing.h"

#include <gradwire/scope.h>
#include <pthread.h>

enum { THREADS = 8, SCOPES = 200 };

static void *request_id(void *scope) {
    return (void *)(uintptr_t)gw_scope_id(scope);
}

static void threads_that_use_scopes_inside_one_see_the_same_id(void **state) {
    (void)state;
    for (int i = 0; i < testing_scaled(SCOPES); i++) {
        gw_scope *root = gw_scope_open(NULL);
        pthread_t threads[THREADS];
        for (int k = 0; k < THREADS; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, request_id, root), 0);
        for (int k = 0; k < THREADS; k++) {
            void *id;
            pthread_join(threads[k], &id);
            assert_int_equal((uintptr_t)id, gw_scope_id(root));
        }
        assert_int_equal(gw_scope_close(root).status, GW_OK);
    }
}

static void *make_path(void *scope) {
    static scope_path p;
    p = scope_path_of(scope);
    return &p;
}

static void a_call_of_several_collectives_is_of_its_thread(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *inner = gw_scope_open(root);
    call_of_several around = scope_path_begin_call(root);
    pthread_t other;
    void *path;
    assert_int_equal(pthread_create(&other, NULL, make_path, inner), 0);
    pthread_join(other, &path);
    assert_false(((const scope_path *)path)->of_several);
    assert_int_equal(((const scope_path *)path)->depth, 3);
    assert_true(scope_path_of(inner).of_several);
    assert_int_equal(scope_path_of(inner).depth, 2);
    scope_path_end_call(around);
    assert_false(scope_path_of(inner).of_several);
    gw_scope_close_up(inner);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

GW_TESTS(collective_scope_path, threads_that_use_scopes_inside_one_see_the_same_id,
         a_call_of_several_collectives_is_of_its_thread);
