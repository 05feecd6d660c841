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

static host_id here(void) {
    host_id host;
    assert_true(host_id_find(&host));
    return host;
}

// Another process, with a copy of all memory of this one.
static host_id start_other(void) {
    host_id host = here();
    int child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    host.process = (uint32_t)child;
    return host;
}

static void end_other(const host_id *host) {
    kill((pid_t)host->process, SIGKILL);
    waitpid((pid_t)host->process, NULL, 0);
}

static void expect_refusal(const host_id *host, uint64_t tag, uint64_t incarnation,
                           const char *why) {
    char reason[128];
    assert_null(source_open(host, tag, incarnation, reason, sizeof reason));
    if (!strstr(reason, why)) fail_msg("\"%s\", not \"%s\"", reason, why);
}

static source *open_it(const host_id *host, uint64_t tag) {
    char reason[128] = "";
    source *x = source_open(host, tag, INCARNATION, reason, sizeof reason);
    assert_string_equal(reason, "");
    assert_non_null(x);
    return x;
}

static void it_reads_memory_of_another_process(void **state) {
    (void)state;
    char reason[128];
    uint8_t *from = mem_alloc(SIZE), *to = mem_calloc(SIZE);
    for (int i = 0; i < SIZE; i++) from[i] = (uint8_t)(i * 7 >> 3);
    uint64_t tag = process_tag_open(INCARNATION);
    host_id there = start_other();
    source *x = open_it(&there, tag);
    uint8_t first = from[0];
    memset(from, 0, 1);  // the other process has its own copy
    assert_int_equal(source_read(x, to, address(from), SIZE, reason, sizeof reason), GW_OK);
    from[0] = first;
    assert_memory_equal(to, from, SIZE);
    assert_true(source_is_valid(x));
    end_other(&there);
    assert_false(source_is_valid(x));
    assert_int_equal(source_read(x, to, address(from), SIZE, reason, sizeof reason),
                     GW_DISCONNECTED);
    assert_string_equal(reason, "its process has ended");
    source_release(x);
    process_tag_close(tag);
    mem_free(from);
    mem_free(to);
}

static void unmapped_memory_is_not_read(void **state) {
    (void)state;
    char reason[128];
    uint8_t to[2 * 4096];
    uint64_t tag = process_tag_open(INCARNATION);
    uint8_t *pages =
        mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    host_id host = here();
    source *x = open_it(&host, tag);
    assert_int_equal(source_read(x, to, address(pages), 4096, reason, sizeof reason), GW_OK);
    assert_int_equal(source_read(x, to, address(pages), 2 * 4096, reason, sizeof reason),
                     GW_SYSTEM);
    assert_string_equal(reason, "the memory is not its own");
    assert_true(source_is_valid(x));
    process_tag_close(tag);
    assert_false(source_is_valid(x));
    source_release(x);
    munmap(pages, 4096);
}

static void it_accepts_a_process_tag_alone(void **state) {
    (void)state;
    uint64_t tag = process_tag_open(INCARNATION);
    host_id host = here(), other = host;
    expect_refusal(&host, tag, INCARNATION + 1, "the memory is not its own");
    expect_refusal(&host, 0, INCARNATION, "it does not allow reading its memory");
    memcpy(other.boot, "another", 8);
    expect_refusal(&other, tag, INCARNATION, "it is on another host");
    other = host;
    other.pid_namespace++;
    expect_refusal(&other, tag, INCARNATION, "it is in another pid namespace");
    other = host;
    other.process = 1 << 30;
    expect_refusal(&other, tag, INCARNATION, "its process has ended");
    process_tag_close(tag);
    expect_refusal(&host, tag, INCARNATION, "the memory is not its own");
}

// Bytes that look like a tag but were received here.
static void it_refuses_a_forged_tag_in_this_process(void **state) {
    (void)state;
    struct {
        char magic[8];
        uint64_t incarnation, at;
    } planted = { .incarnation = INCARNATION, .at = address(&planted) };
    memcpy(planted.magic, PROCESS_TAG_MAGIC, 8);
    host_id host = here();
    expect_refusal(&host, address(&planted), INCARNATION, "the memory is not its own");
}

// A copy of a tag, in another process, is not accepted.
static void it_refuses_a_copied_tag(void **state) {
    (void)state;
    uint8_t copy[24];
    uint64_t tag = process_tag_open(INCARNATION);
    memcpy(copy, (const void *)(uintptr_t)tag, sizeof copy);
    host_id there = start_other();
    expect_refusal(&there, address(copy), INCARNATION, "the memory is not its own");
    source_release(open_it(&there, tag));
    end_other(&there);
    process_tag_close(tag);
}

static void the_number_of_tags_is_limited(void **state) {
    (void)state;
    uint64_t tags[PROCESS_TAGS_MAX], count = 0;
    while (count < PROCESS_TAGS_MAX && (tags[count] = process_tag_open(100 + count))) count++;
    if (count == PROCESS_TAGS_MAX) assert_int_equal(process_tag_open(99), 0);
    while (count) process_tag_close(tags[--count]);
    process_tag_close(0);
}

// ---- Reasons ------------------------------------------------------------------------------------

static int exit_code_of(int child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool is_refused(const host_id *host, uint64_t tag, const char *why) {
    char reason[128] = "";
    source *x = source_open(host, tag, INCARNATION, reason, sizeof reason);
    source_release(x);
    return !x && strcmp(reason, why) == 0;
}

static void its_reason_names_seccomp(void **state) {
    (void)state;
    uint64_t tag = process_tag_open(INCARNATION);
    host_id host = here();
    int child = fork();
    if (child == 0) {
        if (!testing_forbid(SYS_process_vm_readv, EPERM)) _exit(2);
        const char *why = "seccomp: process_vm_readv: Operation not permitted";
        _exit(is_refused(&host, tag, why) ? 0 : 1);
    }
    int code = exit_code_of(child);
    process_tag_close(tag);
    if (code == 2) testing_skip("the kernel forbids remote reads here");
    assert_int_equal(code, 0);
}

static void its_reason_names_the_user(void **state) {
    (void)state;
    if (geteuid() != 0) testing_skip("only root can be another user");
    uint64_t tag = process_tag_open(INCARNATION);
    host_id host = here();
    int child = fork();
    if (child == 0) {
        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) _exit(2);
        _exit(is_refused(&host, tag, "its memory cannot be read: its process belongs to user 0")
                  ? 0
                  : 1);
    }
    int code = exit_code_of(child);
    process_tag_close(tag);
    assert_int_equal(code, 0);
}

GW_TESTS(lend_source, it_reads_memory_of_another_process, unmapped_memory_is_not_read,
         it_accepts_a_process_tag_alone, it_refuses_a_forged_tag_in_this_process,
         it_refuses_a_copied_tag, the_number_of_tags_is_limited, its_reason_names_seccomp,
         its_reason_names_the_user);
