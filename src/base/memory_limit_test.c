#include "base/memory_limit.h"

#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Control groups in a folder of the test, made and removed in this order.
typedef struct made {
    const char *path, *text;  // NULL: a folder
} made;

static const made all[] = {
    { "/memory", NULL },
    { "/memory/job", NULL },
    { "/memory/memory.limit_in_bytes", "9223372036854771712\n" },
    { "/memory/job/memory.limit_in_bytes", "3000000\n" },
    { "/outer", NULL },
    { "/outer/inner", NULL },
    { "/outer/memory.max", "1000000\n" },
    { "/outer/inner/memory.max", "max\n" },
};

enum { MADE = sizeof all / sizeof *all };

static void make(const char *folder) {
    char path[256];
    for (int i = 0; i < MADE; i++) {
        snprintf(path, sizeof path, "%s%s", folder, all[i].path);
        if (!all[i].text) {
            assert_int_equal(mkdir(path, 0700), 0);
            continue;
        }
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fputs(all[i].text, file);
        assert_int_equal(fclose(file), 0);
    }
}

static void clear(const char *folder) {
    char path[256];
    for (int i = MADE; i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", folder, all[i].path);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void it_is_the_least_of_a_group_and_those_around_it(void **state) {
    (void)state;
    char folder[] = "/tmp/gw-groups-XXXXXX";
    assert_non_null(mkdtemp(folder));
    make(folder);
    assert_true(memory_limit_of_groups(folder, "0::/outer/inner\n") == 1000000);
    assert_true(memory_limit_of_groups(folder, "0::/outer\n") == 1000000);
    assert_true(memory_limit_of_groups(folder, "5:pids:/job\n4:memory:/job\n0::/\n") == 3000000);
    assert_true(memory_limit_of_groups(folder, "4:memory:/job\n0::/outer/inner\n") == 1000000);
    clear(folder);
}

static void without_a_group_there_is_no_limit(void **state) {
    (void)state;
    assert_true(memory_limit_of_groups("/nowhere", "0::/\n") == UINT64_MAX);
    assert_true(memory_limit_of_groups("/nowhere", "") == UINT64_MAX);
    assert_true(memory_limit_of_groups("/nowhere", "no colon\n:\n::\n") == UINT64_MAX);
}

static void this_process_has_one(void **state) {
    (void)state;
    assert_true(memory_limit() > 1000000);
    assert_true(memory_limit() < UINT64_MAX);
    assert_true(memory_limit() == memory_limit());
}

GW_TESTS(base_memory_limit, it_is_the_least_of_a_group_and_those_around_it,
         without_a_group_there_is_no_limit, this_process_has_one);
