#include "lend/source.h"

#include "base/mem.h"
#include "testing/testing.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INCARNATION = 78, SIZE = 3 << 20 };

static uint64_t address(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

static place_host here(void) {
    place_host host;
    assert_true(place_find_host(&host));
    return host;
}

// Another process, with a copy of all that is in this one's memory.
static place_host start_other(void) {
    place_host host = here();
    int child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    host.process = (uint32_t)child;
    return host;
}

static void end_other(const place_host *host) {
    kill((pid_t)host->process, SIGKILL);
    waitpid((pid_t)host->process, NULL, 0);
}

static void expect_refusal(const place_host *host, uint64_t badge, uint64_t incarnation,
                           const char *why) {
    char reason[128];
    assert_null(source_open(host, badge, incarnation, reason, sizeof reason));
    if (!strstr(reason, why)) fail_msg("\"%s\", not \"%s\"", reason, why);
}

static source *open_it(const place_host *host, uint64_t badge) {
    char reason[128] = "";
    source *x = source_open(host, badge, INCARNATION, reason, sizeof reason);
    assert_string_equal(reason, "");
    assert_non_null(x);
    return x;
}

static void it_reads_memory_of_another_process(void **state) {
    (void)state;
    char reason[128];
    uint8_t *from = mem_alloc(SIZE), *to = mem_calloc(SIZE);
    for (int i = 0; i < SIZE; i++) from[i] = (uint8_t)(i * 7 >> 3);
    uint64_t badge = badge_open(INCARNATION);
    place_host there = start_other();
    source *x = open_it(&there, badge);
    uint8_t first = from[0];
    memset(from, 0, 1);  // that process has its own
    assert_int_equal(source_read(x, to, address(from), SIZE, reason, sizeof reason), GW_OK);
    from[0] = first;
    assert_memory_equal(to, from, SIZE);
    assert_true(source_is_there(x));
    end_other(&there);
    assert_false(source_is_there(x));
    assert_int_equal(source_read(x, to, address(from), SIZE, reason, sizeof reason),
                     GW_DISCONNECTED);
    assert_string_equal(reason, "its process has ended");
    source_release(x);
    badge_close(badge);
    mem_free(from);
    mem_free(to);
}

static void what_is_not_there_is_not_read(void **state) {
    (void)state;
    char reason[128];
    uint8_t to[2 * 4096];
    uint64_t badge = badge_open(INCARNATION);
    uint8_t *pages =
        mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    place_host host = here();
    source *x = open_it(&host, badge);
    assert_int_equal(source_read(x, to, address(pages), 4096, reason, sizeof reason), GW_OK);
    assert_int_equal(source_read(x, to, address(pages), 2 * 4096, reason, sizeof reason),
                     GW_SYSTEM);
    assert_string_equal(reason, "the memory is not its own");
    assert_true(source_is_there(x));
    badge_close(badge);
    assert_false(source_is_there(x));
    source_release(x);
    munmap(pages, 4096);
}

static void it_believes_a_badge_alone(void **state) {
    (void)state;
    uint64_t badge = badge_open(INCARNATION);
    place_host host = here(), other = host;
    expect_refusal(&host, badge, INCARNATION + 1, "the memory is not its own");
    expect_refusal(&host, 0, INCARNATION, "it lets nobody read its memory");
    memcpy(other.boot, "another", 8);
    expect_refusal(&other, badge, INCARNATION, "another host");
    other = host;
    other.pid_namespace++;
    expect_refusal(&other, badge, INCARNATION, "another pid namespace");
    other = host;
    other.process = 1 << 30;
    expect_refusal(&other, badge, INCARNATION, "its process has ended");
    badge_close(badge);
    expect_refusal(&host, badge, INCARNATION, "the memory is not its own");
}

// What looks like one but was sent here.
static void nor_one_in_this_process_that_is_none_of_its_own(void **state) {
    (void)state;
    struct {
        char magic[8];
        uint64_t incarnation, at;
    } planted = { .incarnation = INCARNATION, .at = address(&planted) };
    memcpy(planted.magic, BADGE_MAGIC, 8);
    place_host host = here();
    expect_refusal(&host, address(&planted), INCARNATION, "the memory is not its own");
}

// A copy of one, in another process, is none.
static void nor_a_copy_of_one(void **state) {
    (void)state;
    uint8_t copy[24];
    uint64_t badge = badge_open(INCARNATION);
    memcpy(copy, (const void *)(uintptr_t)badge, sizeof copy);
    place_host there = start_other();
    expect_refusal(&there, address(copy), INCARNATION, "the memory is not its own");
    source_release(open_it(&there, badge));
    end_other(&there);
    badge_close(badge);
}

static void there_are_only_so_many_badges(void **state) {
    (void)state;
    uint64_t badges[BADGES_MAX], count = 0;
    while (count < BADGES_MAX && (badges[count] = badge_open(100 + count))) count++;
    if (count == BADGES_MAX) assert_int_equal(badge_open(99), 0);
    while (count) badge_close(badges[--count]);
    badge_close(0);
}

// ---- Why not ------------------------------------------------------------------------------------

static int exit_code_of(int child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool is_refused(const place_host *host, uint64_t badge, const char *why) {
    char reason[128] = "";
    source *x = source_open(host, badge, INCARNATION, reason, sizeof reason);
    source_release(x);
    return !x && strcmp(reason, why) == 0;
}

static void it_says_that_seccomp_forbids_it(void **state) {
    (void)state;
    uint64_t badge = badge_open(INCARNATION);
    place_host host = here();
    int child = fork();
    if (child == 0) {
        if (!testing_forbid(SYS_process_vm_readv, EPERM)) _exit(2);
        const char *why = "seccomp: process_vm_readv: Operation not permitted";
        _exit(is_refused(&host, badge, why) ? 0 : 1);
    }
    int code = exit_code_of(child);
    badge_close(badge);
    if (code == 2) testing_skip("the kernel lets nobody read here");
    assert_int_equal(code, 0);
}

static void it_says_whose_process_it_is(void **state) {
    (void)state;
    if (geteuid() != 0) testing_skip("only root can be another user");
    uint64_t badge = badge_open(INCARNATION);
    place_host host = here();
    int child = fork();
    if (child == 0) {
        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) _exit(2);
        _exit(is_refused(&host, badge, "its memory cannot be read: user 0 has it") ? 0 : 1);
    }
    int code = exit_code_of(child);
    badge_close(badge);
    assert_int_equal(code, 0);
}

GW_TESTS(lend_source, it_reads_memory_of_another_process, what_is_not_there_is_not_read,
         it_believes_a_badge_alone, nor_one_in_this_process_that_is_none_of_its_own,
         nor_a_copy_of_one, there_are_only_so_many_badges, it_says_that_seccomp_forbids_it,
         it_says_whose_process_it_is);
