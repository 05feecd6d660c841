#include "tensor/arena.h"

#include "base/mem.h"
#include "tensor/pool.h"
#include "tensor/tensor.h"
#include "testing/testing.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNIT = ARENA_UNIT_BYTES };

static int open_it(void) {
    int descriptor;
    uint64_t size;
    assert_true(arena_find(&descriptor, &size));
    return descriptor;
}

static void it_is_sealed_and_begins_with_a_header(void **state) {
    (void)state;
    int descriptor;
    uint64_t size;
    struct stat file;
    assert_true(arena_find(&descriptor, &size));
    assert_int_equal(fstat(descriptor, &file), 0);
    assert_int_equal(file.st_size, size);
    int seals = fcntl(descriptor, F_GET_SEALS);
    assert_true((seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW) && (seals & F_SEAL_SEAL));
    assert_int_equal(ftruncate(descriptor, 4096), -1);
    assert_int_equal(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    const arena_header *h = (const arena_header *)(const void *)arena_at(0);
    assert_memory_equal(h->magic, ARENA_MAGIC, 8);
    assert_true(arena_admit(7) && arena_admit(8));
    assert_int_equal(h->owners[0], 7);
    arena_dismiss(7);
    assert_int_equal(h->owners[0], 0);
    assert_int_equal(h->owners[1], 8);
}

static void it_gives_extents_out_once(void **state) {
    (void)state;
    open_it();
    uint64_t a = arena_take(UNIT), b = arena_take(3 * UNIT), c = arena_take(UNIT);
    assert_true(a && b >= a + UNIT && c >= b + 3 * UNIT);
    memset(arena_at(b), 1, 3 * UNIT);
    arena_give(b, 3 * UNIT);
    assert_int_equal(arena_take(4 * UNIT) > c, 1);
    assert_int_equal(arena_take(2 * UNIT), b);
    assert_int_equal(arena_at(b)[5], 0);  // its pages were given back
    assert_int_equal(arena_take((size_t)1 << 50), 0);
    assert_int_equal(arena_taken_bytes(), (1 + 1 + 1 + 4 + 2) * (size_t)UNIT);
}

static void it_moves_memory_under_its_address(void **state) {
    (void)state;
    int descriptor = open_it();
    uint8_t *room =
        mmap(NULL, 2 * UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *p = room + (UNIT - (uintptr_t)room % UNIT) % UNIT;
    for (size_t i = 0; i < UNIT; i += 100) p[i] = (uint8_t)i;
    uint64_t offset = arena_move(p, UNIT);
    assert_true(offset > 0);
    for (size_t i = 0; i < UNIT; i += 100) assert_int_equal(p[i], (uint8_t)i);
    p[3] = 77;
    uint8_t there;
    assert_int_equal(pread(descriptor, &there, 1, (off_t)offset + 3), 1);
    assert_int_equal(there, 77);
    arena_unmove(p, UNIT);
    arena_give(offset, UNIT);
}

static void blocks_are_in_the_arena_while_it_is_used(void **state) {
    (void)state;
    open_it();
    block *before = block_take(3 << 20);
    assert_int_equal(before->arena_offset, 0);
    arena_use(1);
    block *b = block_take(3 << 20), *claimed = block_take_unpopulated(3 << 20);
    assert_true(b->arena_offset > 0);
    assert_ptr_equal(b->bytes, arena_at(b->arena_offset));
    assert_int_equal(claimed->arena_offset, 0);
    block_pin(before);
    assert_int_equal(pool_move_to_arena(before), MEM_CACHED);
    if (MEM_CACHED) assert_true(before->arena_offset > 0);
    arena_use(-1);
    block_unpin(before);
    block_release(before);
    block_release(b);
    block_release(claimed);
    pool_trim();
    assert_int_equal(arena_taken_bytes(), UNIT);  // its header's
}

static void a_writable_block_does_not_move_into_it(void **state) {
    (void)state;
    open_it();
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_empty(s, GW_F32, 1 << 20);
    block *handed_out = x->storage->block, *stays = block_take(3 << 20);
    uint8_t *p = gw_data_for_write(s, x);
    block_mark_as(stays, BLOCK_STAYS);
    block_pin(handed_out);
    block_pin(stays);
    assert_false(pool_move_to_arena(handed_out));
    assert_false(pool_move_to_arena(stays));
    p[7] = 7;
    block_writable(stays, 0)[5] = 5;
    assert_int_equal(handed_out->bytes[7], 7);
    assert_int_equal(stays->bytes[5], 5);
    block_unpin(handed_out);
    block_unpin(stays);
    block_release(stays);
    gw_scope_close_up(s);
}

static void an_orphaned_block_is_not_written(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_U8, 3, 1 << 20);
    block *lent = block_retain(x->storage->block);
    block_mark_as(lent, BLOCK_ORPHANED);
    uint8_t *p = gw_data_for_write(s, x);
    assert_int_equal(p[9], 3);
    p[9] = 4;
    assert_int_equal(block_lend(lent, 0)[9], 3);
    gw_scope_close_up(s);
    atomic_store(&lent->marks, 0);  // no process has it
    block_release(lent);
}

static void an_orphaned_block_is_not_used_again(void **state) {
    (void)state;
    open_it();
    arena_use(1);
    block *b = block_take(1 << 20);
    uint64_t place = b->arena_offset;
    memset(b->bytes, 9, 1 << 20);
    block_mark_as(b, BLOCK_ORPHANED);
    block_release(b);
    b = block_take(1 << 20);
    assert_true(b->arena_offset != place);
    assert_int_equal(arena_at(place)[100], 9);
    arena_use(-1);
    block_release(b);
}

static int exit_code_of(int child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_child_has_a_copy(void **state) {
    (void)state;
    open_it();
    uint64_t offset = arena_take(UNIT);
    arena_at(offset)[0] = 1;
    int child = fork();
    if (child == 0) {
        if (arena_at(offset)[0] != 1 || arena_take(UNIT)) _exit(2);
        arena_at(offset)[0] = 2;
        arena_give(offset, UNIT);
        _exit(arena_at(offset)[0] == 2 ? 0 : 3);
    }
    assert_int_equal(exit_code_of(child), 0);
    assert_int_equal(arena_at(offset)[0], 1);
}

static void it_respects_the_limit_of_files(void **state) {
    (void)state;
    int descriptor;
    uint64_t size;
    struct rlimit small = { 1 << 20, 1 << 20 };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_false(arena_find(&descriptor, &size));
    assert_int_equal(arena_take(UNIT), 0);
}

GW_TESTS(tensor_arena, it_is_sealed_and_begins_with_a_header, it_gives_extents_out_once,
         it_moves_memory_under_its_address, blocks_are_in_the_arena_while_it_is_used,
         a_writable_block_does_not_move_into_it, an_orphaned_block_is_not_written,
         an_orphaned_block_is_not_used_again, a_child_has_a_copy, it_respects_the_limit_of_files);
