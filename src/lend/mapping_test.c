#include "lend/mapping.h"

#include "tensor/arena.h"
#include "testing/runner.h"
#include "testing/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNIT = ARENA_UNIT_BYTES, INCARNATION = 77 };

static arena_location own_arena(void) {
    arena_location p = { 0 };
    int descriptor;
    assert_true(host_id_find(&p.host));
    assert_true(arena_find(&descriptor, &p.size));
    p.descriptor = (uint32_t)descriptor;
    arena_admit(INCARNATION);
    return p;
}

static void expect_refusal(const arena_location *p, uint64_t incarnation, const char *why) {
    char reason[128];
    assert_null(mapping_open(p, incarnation, reason, sizeof reason));
    assert_non_null(strstr(reason, why));
}

static void it_maps_an_arena_for_reading(void **state) {
    (void)state;
    char reason[128];
    arena_location p = own_arena();
    mapping *m = mapping_open(&p, INCARNATION, reason, sizeof reason);
    assert_non_null(m);
    uint64_t offset = arena_take(UNIT);
    memcpy(arena_at(offset), "numbers", 8);
    assert_string_equal((char *)m->base + offset, "numbers");
    assert_int_equal(mprotect(m->base, 4096, PROT_READ | PROT_WRITE), -1);
    mapping_release(m);
}

static void it_keeps_a_copy_under_the_same_address(void **state) {
    (void)state;
    char reason[128];
    arena_location p = own_arena();
    mapping *m = mapping_open(&p, INCARNATION, reason, sizeof reason);
    uint64_t offset = arena_take(UNIT);
    memset(arena_at(offset), 1, UNIT);
    assert_true(mapping_keep(m, m->base + offset + 5000, 10000));
    memset(arena_at(offset), 2, UNIT);
    for (size_t i = 5000; i < 15000; i++) assert_int_equal(m->base[offset + i], 1);
    assert_int_equal(m->base[offset + 5000 + 16384], 2);
    mapping_release(m);
}

static void it_refuses_memory_that_is_no_arena(void **state) {
    (void)state;
    arena_location p = own_arena(), other = p;
    expect_refusal(&p, INCARNATION + 1, "the memory is not its own");
    memcpy(other.host.boot, "another", 8);
    expect_refusal(&other, INCARNATION, "it is on another host");
    other = p;
    other.host.pid_namespace++;
    expect_refusal(&other, INCARNATION, "it is in another pid namespace");
    other = p;
    other.size -= UNIT;
    expect_refusal(&other, INCARNATION, "not sealed");
    other.size = 17;
    expect_refusal(&other, INCARNATION, "its arena has an invalid size of 17 bytes");
    other = p;
    other.descriptor = 0;
    expect_refusal(&other, INCARNATION, "cannot be opened");
    other.descriptor = 999999;
    expect_refusal(&other, INCARNATION, "cannot be opened");
}

static void it_refuses_memory_that_could_shrink(void **state) {
    (void)state;
    arena_location p = own_arena();
    int descriptor = memfd_create("gradwire", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(descriptor, 4 * UNIT), 0);
    p.descriptor = (uint32_t)descriptor;
    p.size = 4 * UNIT;
    expect_refusal(&p, INCARNATION, "not sealed");
    assert_int_equal(fcntl(descriptor, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_refusal(&p, INCARNATION, "not sealed");
    assert_int_equal(fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    expect_refusal(&p, INCARNATION, "not its own");
}

static void kept_pages_do_not_affect_another_mapping(void **state) {
    (void)state;
    arena_location p = own_arena();
    char reason[128];
    uint64_t at = arena_take(UNIT);
    arena_at(at)[100] = 1;
    mapping *m = mapping_open(&p, INCARNATION, reason, sizeof reason);
    assert_non_null(m);
    assert_true(mapping_keep(m, m->base + at, 200));
    arena_at(at)[100] = 2;
    mapping *again = mapping_again(m);
    assert_non_null(again);
    assert_int_equal(m->base[at + 100], 1);
    assert_int_equal(again->base[at + 100], 2);
    assert_int_equal(again->base[0], 'G');
    mapping_release(m);
    assert_int_equal(again->base[at + 100], 2);
    mapping_release(again);
    arena_give(at, UNIT);
}

// Whether the end of a watched process is detected when it is killed, also before its parent has waited for it.
static bool detects_an_end(void) {
    int child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    siginfo_t ignored;
    process_watch *w = process_watch_open((uint32_t)child);
    bool was_alive = w && !process_watch_has_ended(w);
    kill(child, SIGKILL);
    waitid(P_PID, (id_t)child, &ignored, WEXITED | WNOWAIT);
    bool is_seen = was_alive && process_watch_has_ended(w);
    process_watch *late = process_watch_open((uint32_t)child);
    waitpid(child, NULL, 0);
    is_seen = is_seen && process_watch_has_ended(w) && (!late || process_watch_has_ended(late));
    process_watch_release(w);
    process_watch_release(late);
    return is_seen && !process_watch_has_ended(NULL);
}

static void it_detects_the_end_of_a_process(void **state) {
    (void)state;
    assert_true(detects_an_end());
}

static void it_detects_the_end_without_a_pidfd(void **state) {
    (void)state;
    int child = fork();
    if (child == 0) {
        if (!testing_forbid(SYS_pidfd_open, EPERM)) _exit(TESTING_EXIT_SKIPPED);
        process_watch *w = process_watch_open((uint32_t)getpid());
        bool is_alive = w && w->descriptor < 0 && !process_watch_has_ended(w);
        if (w) w->start_time++;  // as of a later process with the same number
        is_alive = is_alive && process_watch_has_ended(w);
        process_watch_release(w);
        _exit(is_alive && detects_an_end() ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == TESTING_EXIT_SKIPPED) testing_skip("seccomp is not allowed here");
    assert_int_equal(status, 0);
}

GW_TESTS(lend_mapping, it_maps_an_arena_for_reading, it_keeps_a_copy_under_the_same_address,
         kept_pages_do_not_affect_another_mapping, it_refuses_memory_that_is_no_arena,
         it_refuses_memory_that_could_shrink, it_detects_the_end_of_a_process,
         it_detects_the_end_without_a_pidfd);
