
#include "reference/references.h"
#include "testing/cluster.h"
#include "testing/testing.h"

static message *make(agent *a, reference_kind kind, size_t size) {
    message *m = agent_message_on_loop(a, kind);
    assert_non_null(m);
    for (size_t i = 0; i < size; i++) bytes_put_u8(&m->head, 0);
    return m;
}

// Each message of the room, cut off at each byte.
static void receive_cut(gw_scope *s, int rank, void *context) {
    (void)context;
    static const struct {
        reference_kind kind;
        size_t size;
    } all[] = { { KIND_ACCEPTED, 16 },     { KIND_FORK_REQUEST, 16 }, { KIND_FORK_ACK, 9 },
                { KIND_CHILD_ACCEPT, 8 },  { KIND_RELEASE, 4 },       { KIND_FETCH, 24 },
                { KIND_FORWARD_VALUE, 28 } };
    if (rank != 0) return;
    agent *a = s->agent;
    env_enter(a->env);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (size_t size = 0; size < all[i].size; size++) {
            gw_error error;
            message *m = make(a, all[i].kind, size);
            assert_int_equal(reference_service.received(a, 1, m, &error), GW_PROTOCOL);
        }
    }
    pending left = { 0 };
    reference_service.pending(a, &left);
    assert_int_equal(left.count, 0);
    assert_int_equal(references_of(a)->entry_count, 0);
    env_leave(a->env);
}

static void it_refuses_messages_that_are_cut_off(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, receive_cut, NULL);
}

static gw_status read(agent *a, uint32_t owner, uint64_t id, uint64_t fork, uint8_t listed) {
    bytes b = { 0 };
    gw_error error;
    gw_handle *r = NULL;
    bytes_put_u32(&b, owner);
    bytes_put_u64(&b, id);
    bytes_put_u64(&b, fork);
    bytes_put_u8(&b, listed);
    reader in = reader_of(b.data, b.size);
    gw_status status = reference_attachment.read(a, 1, &in, &r, &error);
    bytes_fini(&b);
    assert_true(status == GW_PROTOCOL ? !r : r != NULL);
    handle_release(r);
    return status;
}

static void read_odd(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    agent *a = s->agent;
    env_enter(a->env);
    assert_int_equal(read(a, 77, 5, id_of(1, 5), 0), GW_PROTOCOL);  // no such worker
    assert_int_equal(read(a, 2, 0, id_of(1, 5), 0), GW_PROTOCOL);   // no value
    assert_int_equal(read(a, 2, 5, 0, 0), GW_PROTOCOL);             // no fork
    assert_int_equal(read(a, 2, 5, id_of(2, 5), 0), GW_PROTOCOL);   // another's fork
    assert_int_equal(read(a, 2, 5, id_of(1, 5), 1), GW_PROTOCOL);   // another worker's holder set
    assert_int_equal(read(a, 2, 5, id_of(1, 5), 2), GW_PROTOCOL);
    // A reference that returns to its owner without an entry is lost; the message is valid.
    assert_int_equal(read(a, 0, id_of(1, 5), 0, 1), GW_OK);
    env_leave(a->env);
}

static void it_refuses_malformed_references(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, read_odd, NULL);
}

GW_TESTS(reference_reference_service, it_refuses_messages_that_are_cut_off,
         it_refuses_malformed_references);
